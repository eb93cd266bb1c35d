/* consumer_answers: how the world of the rig answers an action, and what it then looks like. Only consumer_rig uses it. */
#ifndef PAWL_TESTS_CONSUMER_ANSWERS_H
#define PAWL_TESTS_CONSUMER_ANSWERS_H

#include "consumer_rig.h"

struct work_item *item_make(size_t ids, uint32_t messages, int64_t seq_last);
/* All of the completion but its times; its result is set already. */
void answer_fill(struct rig *rig, const struct action *action, struct completion *completion);

#endif
