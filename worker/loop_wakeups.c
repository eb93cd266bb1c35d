/* Wake-ups, on their way to the types that they are about. */
#include "worker/log.h"
#include "worker/loop_private.h"

#include <stdlib.h>

/* Said once a change; at the start only that they cannot come. */
static void notifications_log(struct loop *loop, const struct notification *news)
{
  struct error text;
  bool denied = news->kind == NOTIFICATIONS_DENIED;
  if (news->kind == NOTIFICATIONS_BEGUN && loop->logged_unnotified) {
    loop_say(CONFIG_LOG_INFO, "wakeups", "wake-ups come again");
    loop->logged_unnotified = false;
  } else if (news->kind != NOTIFICATIONS_BEGUN && !loop->logged_unnotified) {
    error_set(&text, "%s: %.800s; polling by timers only", denied ? "no wake-ups come" : "wake-ups are lost", news->error.text);
    loop_say(denied ? CONFIG_LOG_WARN : CONFIG_LOG_INFO, "wakeups", text.text);
    loop->logged_unnotified = true;
  }
}

static void notifications_change(struct loop *loop, const struct notification *news)
{
  struct event event = {.kind = EVENT_NOTIFICATIONS, .notified = news->kind == NOTIFICATIONS_BEGUN};
  bool changed = loop->notified != event.notified;
  loop->notified = event.notified;
  notifications_log(loop, news);
  for (size_t i = 0; changed && i < loop->context_count; i++)
    loop_dispatch(loop->contexts[i], &event);
  loop_types_hurry(loop);
}

static void wake_type(struct loop *loop, const struct wakeup *wakeup)
{
  static const char *const abouts[] = {[WAKEUP_MESSAGE] = "a message", [WAKEUP_LOCK] = "the lock", [WAKEUP_LOST] = "a lost lock"};
  struct event event = {.kind = EVENT_WAKE, .about = wakeup->about, .owner = wakeup->owner};
  struct error text;
  struct log_subject subject = {.type = wakeup->type};
  error_set(&text, "woken for %s", abouts[wakeup->about]);
  log_line(CONFIG_LOG_DEBUG, &subject, "wakeups", text.text);
  for (size_t i = 0; i < loop->context_count; i++) {
    struct type_context *served = loop->contexts[i];
    if (strcmp(served->consumer.core.type, wakeup->type) != 0)
      continue;
    served->woken = served->woken || served->leaves;
    loop_dispatch(served, &event);
    return;
  }
  if (wakeup->about == WAKEUP_MESSAGE)
    loop_types_wake(loop, wakeup->type);
}

void loop_wakeups_take(struct loop *loop)
{
  struct notification news;
  while (loop->notifications != NULL && notifications_take(loop->notifications, &news)) {
    if (news.kind == NOTIFICATION_WAKEUP)
      wake_type(loop, &news.wakeup);
    else
      notifications_change(loop, &news);
  }
  if (loop->notifications != NULL && notifications_dropped(loop->notifications))
    loop_types_hurry(loop);
}

void loop_wakeups_start(struct loop *loop, void (*notify)(void *context))
{
  const struct loop_options *options = loop->options;
  const struct type_rules *rules = options->rules;
  struct notification denied = {.kind = NOTIFICATIONS_DENIED, .error.text = "no memory"};
  size_t count = 0, pattern_count = rules != NULL ? rules->pattern_count : 0;
  const char **types = calloc(options->type_count + pattern_count, sizeof *types);
  for (size_t i = 0; types != NULL && i < options->type_count; i++)
    types[count++] = options->types[i];
  for (size_t i = 0; types != NULL && i < pattern_count; i++)
    types[count++] = rules->patterns[i];
  struct wakeup_reader *reader =
      types != NULL ? wakeup_reader_open(options->performer.store, options->notifications, types, count, &denied.error) : NULL;
  free(types);
  loop->notifications = notifications_start(reader, notify, loop, &denied.error);
  if (loop->notifications == NULL)
    notifications_log(loop, &denied);
}
