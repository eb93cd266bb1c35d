#include "consumer_stories.h"

struct rig rig;

static void begin(const struct consumer_options *options)
{
  struct consumer_options usual = rig_options();
  rig_init(&rig, options != NULL ? options : &usual, 1);
}

int story_begin(void **state)
{
  (void)state;
  begin(NULL);
  return 0;
}

int story_end(void **state)
{
  (void)state;
  rig_deinit(&rig);
  return 0;
}

void story_again(const struct consumer_options *options)
{
  rig_deinit(&rig);
  begin(options);
}

void play(const char *events)
{
  rig_play_all(&rig, events);
}

const struct action *running(enum activity activity)
{
  rig_assert(&rig, rig.slots[activity].running);
  return &rig.slots[activity].action;
}

int64_t pause_ms(void)
{
  return consumer_wake_ms(&rig.consumer) - rig.moment.now_ms;
}

bool trusts(void)
{
  struct error ignored;
  return consumer_trusts(&rig.consumer, rig.moment.now_ms, &ignored);
}
