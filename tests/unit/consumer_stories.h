/*
 * consumer_stories: what the stories of test_consumer share: one rig (consumer_rig.h), and steps. A step is what happens, the
 * state that it leads to, and the actions that its last event starts.
 */
#ifndef PAWL_TESTS_CONSUMER_STORIES_H
#define PAWL_TESTS_CONSUMER_STORIES_H

#include "consumer_rig.h"
#include "unit_test.h"

#define STORY(name) TEST_WITH(name, story_begin, story_end)

#define IDLE "wait 0; POLL NO; CHECK YES"
#define TO_TAKING "wait 0; POLL YES; CHECK YES; LOOK YES"
#define TO_FENCING TO_TAKING "; TAKE YES"
#define TO_DRAINING TO_FENCING "; FENCE YES:clean; OPEN YES"
#define TO_APPENDING TO_DRAINING "; READ YES; BEGIN YES"

extern struct rig rig;

int story_begin(void **state);
int story_end(void **state);
/* Begins anew; NULL: with the same options. */
void story_again(const struct consumer_options *options);

void play(const char *events);
#define EXPECT(state, started) rig_expect(&rig, state, started)
#define STEP(events, state, started) (play(events), EXPECT(state, started))

const struct action *running(enum activity activity);
int64_t pause_ms(void);
bool trusts(void);

#endif
