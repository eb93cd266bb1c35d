#include "worker/loop.h"
#include "config/stop.h"
#include "lockstore/mongo.h"
#include "worker/clock.h"
#include "worker/database_log.h"
#include "worker/health.h"
#include "worker/jobs.h"
#include "worker/last_poll.h"
#include "worker/log.h"
#include "worker/notifications.h"
#include "worker/systemd.h"

#include <assert.h>
#include <ev.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

enum {
  STOP_LIMIT_MS = 8000,
};

struct loop;

struct type_context { /* what belongs to one type */
  struct loop *loop;
  struct consumer consumer;
  struct performer performer;
};

struct loop {
  const struct loop_options *options;
  struct ev_loop *ev;
  ev_async done;
  ev_timer timer, stop_limit, timeout;
  ev_signal term, interrupt;
  ev_io health_io;
  ev_timer health_timer, systemd_timer;
  struct jobs jobs;
  struct notifications *notifications; /* NULL: it could not be started */
  bool notified;                       /* wake-ups come */
  bool logged_unnotified;              /* that they do not */
  struct type_context *contexts;
  struct health *health; /* NULL: none is wanted */
  struct systemd systemd;
  char summary[SYSTEMD_STATUS_SIZE];
  const struct consumer **consumers; /* the contexts', for those two */
  int64_t started_wall_us;
  struct last_poll last;
  bool ready_sent; /* the service manager */
  struct database_log database;
  bool stopping;
  bool signalled, timed_out;
};

int loop_connections(size_t type_count)
{
  return jobs_connections(type_count);
}

static struct moment moment_now(void)
{
  struct moment moment = {.now_ms = clock_boot_ms(), .wall_us = clock_wall_us()};
  if (getrandom(moment.random, sizeof moment.random, 0) != (ssize_t)sizeof moment.random)
    abort(); /* cannot happen for so few bytes; a nonce that is none must not be used */
  return moment;
}

/* ---- notes ---- */

static void say(enum config_log_level level, const char *event, const char *text)
{
  struct log_subject process = {0};
  log_line(level, &process, event, text);
}

static void events_write(const struct type_context *served, const struct effects *effects)
{
  static const enum config_log_level levels[] = {
      [LEVEL_ERROR] = CONFIG_LOG_ERROR, [LEVEL_WARN] = CONFIG_LOG_WARN, [LEVEL_INFO] = CONFIG_LOG_INFO, [LEVEL_DEBUG] = CONFIG_LOG_DEBUG};
  for (int i = 0; i < effects->event_count; i++) {
    const struct log_event *event = &effects->events[i];
    struct log_subject subject = {.type = served->consumer.core.type, .epoch = event->epoch, .seq = event->seq};
    log_line(levels[event->level], &subject, event->name, event->text);
  }
}

/* ---- what others are told ---- */

static void look(void *context, struct metrics_view *view)
{
  const struct loop *loop = context;
  *view = (struct metrics_view){
      .consumers = loop->consumers,
      .consumer_count = loop->options->type_count,
      .now_ms = clock_boot_ms(),
      .started_wall_us = loop->started_wall_us,
      .asked = loop->database.asked,
      .away = loop->database.away,
      .refuses = loop->database.refused != 0,
      .wakes = loop->notified,
      .stopping = loop->stopping,
  };
}

static const char *summary(struct loop *loop)
{
  struct metrics_view view;
  look(loop, &view);
  metrics_summary(&view, loop->summary, sizeof loop->summary);
  return loop->summary;
}

static void health_turn(struct loop *loop)
{
  health_run(loop->health);
  int64_t ms = health_timeout_ms(loop->health);
  ev_timer_stop(loop->ev, &loop->health_timer);
  if (ms < 0)
    return;
  ev_now_update(loop->ev);
  ev_timer_set(&loop->health_timer, (double)ms / 1000, 0.);
  ev_timer_start(loop->ev, &loop->health_timer);
}

static void on_health(struct ev_loop *ev, ev_io *watcher, int events)
{
  (void)ev, (void)events;
  health_turn(watcher->data);
}

static void on_health_timer(struct ev_loop *ev, ev_timer *watcher, int events)
{
  (void)ev, (void)events;
  health_turn(watcher->data);
}

static void on_systemd(struct ev_loop *ev, ev_timer *watcher, int events)
{
  struct loop *loop = watcher->data;
  (void)ev, (void)events;
  systemd_tick(&loop->systemd, clock_boot_ms(), summary(loop));
}

/* Once the database was asked the first time, whatever the answer: a refusal is a start that failed, an absent database is not. */
static void ready_tell(struct loop *loop)
{
  if (loop->ready_sent || !loop->database.asked)
    return;
  loop->ready_sent = true;
  systemd_ready(&loop->systemd, summary(loop));
}

/* ---- actions ---- */

static void dispatch(struct type_context *served, const struct event *event)
{
  struct effects effects;
  struct moment moment = moment_now();
  consumer_handle(&served->consumer, event, &moment, &effects);
  events_write(served, &effects);
  performer_until(&served->performer, consumer_until_ms(&served->consumer));
  for (int i = 0; i < effects.action_count; i++)
    jobs_submit(&served->loop->jobs, &served->performer, served, &effects.actions[i]);
  if (effects.drop_read)
    performer_drop_read(&served->performer);
}

/* ---- the end ---- */

static void stop_all(struct loop *loop)
{
  struct event stop = {.kind = EVENT_STOP};
  if (loop->stopping)
    return;
  loop->stopping = true;
  atomic_store(&loop->jobs.stopping, true);
  ev_timer_start(loop->ev, &loop->stop_limit);
  for (size_t i = 0; i < loop->options->type_count; i++)
    dispatch(&loop->contexts[i], &stop);
  systemd_stopping(&loop->systemd, summary(loop));
}

/* --exit-when-empty: when each type has found its queue empty, all are polled once more, together. */
static void last_poll_step(struct loop *loop)
{
  if (loop->stopping || !last_poll_is_due(&loop->last)) /* while it runs, what it polls for is its own */
    return;
  loop->last.type_count = 0;
  for (size_t i = 0; i < loop->options->type_count; i++) {
    const struct consumer *consumer = &loop->contexts[i].consumer;
    if (consumer_is_quiet(consumer))
      loop->last.types[loop->last.type_count++] = consumer->core.type;
    else if (!consumer_is_over(consumer))
      return;
  }
  if (loop->last.type_count > 0)
    last_poll_start(&loop->last, loop->jobs.executor);
}

static void last_poll_handle(struct loop *loop)
{
  if (!last_poll_done(&loop->last))
    return;
  say(CONFIG_LOG_INFO, "empty", "no message is left");
  stop_all(loop);
}

static bool all_over(const struct loop *loop)
{
  for (size_t i = 0; i < loop->options->type_count; i++)
    if (!consumer_is_over(&loop->contexts[i].consumer))
      return false;
  return !loop->last.running;
}

static int exit_code(const struct loop *loop)
{
  int code = loop->timed_out ? loop->database.denied ? EXIT_USAGE : EXIT_UNAVAILABLE : EXIT_DONE;
  for (size_t i = 0; i < loop->options->type_count; i++) {
    const struct consumer *consumer = &loop->contexts[i].consumer;
    if (consumer->core.state == STATE_STOPPED)
      return consumer->core.refused ? EXIT_USAGE : EXIT_UNTRUSTED;
  }
  return code;
}

/* After whatever happened: the next timer, the look at the whole queue, the end. */
static void settle_down(struct loop *loop)
{
  int64_t wake = INT64_MAX, now = clock_boot_ms();
  jobs_renew(&loop->jobs);
  if (loop->options->exit_when_empty)
    last_poll_step(loop);
  if (all_over(loop)) {
    ev_break(loop->ev, EVBREAK_ALL);
    return;
  }
  ready_tell(loop);
  for (size_t i = 0; i < loop->options->type_count; i++) {
    int64_t at = consumer_wake_ms(&loop->contexts[i].consumer);
    wake = at < wake ? at : wake;
  }
  ev_timer_stop(loop->ev, &loop->timer);
  if (wake == INT64_MAX)
    return;
  ev_now_update(loop->ev);
  ev_timer_set(&loop->timer, wake > now ? (double)(wake - now) / 1000 : 0, 0.);
  ev_timer_start(loop->ev, &loop->timer);
}

/* ---- watchers ---- */

static void action_done(void *context, void *of, struct completion *completion)
{
  struct loop *loop = context;
  struct event event = {.kind = EVENT_COMPLETION, .completion = completion};
  database_log_action(&loop->database, completion);
  bool known = database_log_server(&loop->database, completion, loop->options->performer.store);
  if (known && loop->notifications != NULL && !loop->stopping)
    notifications_go(loop->notifications);
  dispatch(of, &event);
}

static void other_done(void *context, struct job *job)
{
  (void)job; /* it is the last poll's */
  last_poll_handle(context);
}

/* Said once a change; at the start only that they cannot come. */
static void notifications_log(struct loop *loop, const struct notification *news)
{
  struct error text;
  bool denied = news->kind == NOTIFICATIONS_DENIED;
  if (news->kind == NOTIFICATIONS_BEGUN && loop->logged_unnotified) {
    say(CONFIG_LOG_INFO, "wakeups", "wake-ups come again");
    loop->logged_unnotified = false;
  } else if (news->kind != NOTIFICATIONS_BEGUN && !loop->logged_unnotified) {
    error_set(&text, "%s: %.800s; polling by timers only", denied ? "no wake-ups come" : "wake-ups are lost", news->error.text);
    say(denied ? CONFIG_LOG_WARN : CONFIG_LOG_INFO, "wakeups", text.text);
    loop->logged_unnotified = true;
  }
}

static void notifications_change(struct loop *loop, const struct notification *news)
{
  struct event event = {.kind = EVENT_NOTIFICATIONS, .notified = news->kind == NOTIFICATIONS_BEGUN};
  bool changed = loop->notified != event.notified;
  loop->notified = event.notified;
  notifications_log(loop, news);
  for (size_t i = 0; changed && i < loop->options->type_count; i++)
    dispatch(&loop->contexts[i], &event);
}

static void wake_type(struct loop *loop, const struct wakeup *wakeup)
{
  static const char *const abouts[] = {[WAKEUP_MESSAGE] = "a message", [WAKEUP_LOCK] = "the lock", [WAKEUP_LOST] = "a lost lock"};
  struct event event = {.kind = EVENT_WAKE, .about = wakeup->about, .owner = wakeup->owner};
  struct error text;
  for (size_t i = 0; i < loop->options->type_count; i++) {
    struct log_subject subject = {.type = loop->options->types[i]};
    if (strcmp(loop->options->types[i], wakeup->type) != 0)
      continue;
    error_set(&text, "woken for %s", abouts[wakeup->about]);
    log_line(CONFIG_LOG_DEBUG, &subject, "wakeups", text.text);
    dispatch(&loop->contexts[i], &event);
  }
}

static void take_news(struct loop *loop)
{
  struct notification news;
  while (loop->notifications != NULL && notifications_take(loop->notifications, &news)) {
    if (news.kind == NOTIFICATION_WAKEUP)
      wake_type(loop, &news.wakeup);
    else
      notifications_change(loop, &news);
  }
}

static void on_done(struct ev_loop *ev, ev_async *watcher, int events)
{
  struct loop *loop = watcher->data;
  (void)ev, (void)events;
  jobs_take(&loop->jobs, &(struct jobs_taker){.action = action_done, .other = other_done, .context = loop});
  take_news(loop);
  settle_down(loop);
}

static void on_timer(struct ev_loop *ev, ev_timer *watcher, int events)
{
  struct loop *loop = watcher->data;
  struct event timer = {.kind = EVENT_TIMER};
  int64_t now = clock_boot_ms();
  (void)ev, (void)events;
  for (size_t i = 0; i < loop->options->type_count; i++)
    if (consumer_wake_ms(&loop->contexts[i].consumer) <= now)
      dispatch(&loop->contexts[i], &timer);
  settle_down(loop);
}

static void on_signal(struct ev_loop *ev, ev_signal *watcher, int events)
{
  struct loop *loop = watcher->data;
  (void)ev, (void)events;
  if (loop->signalled) {
    say(CONFIG_LOG_ERROR, "stop", "asked to stop a second time: exiting immediately; no data is lost");
    _exit(EXIT_FAILED);
  }
  loop->signalled = true;
  say(CONFIG_LOG_INFO, "stop", "asked to stop: finishing the batch in hand");
  stop_all(loop);
  settle_down(loop);
}

static void on_stop_limit(struct ev_loop *ev, ev_timer *watcher, int events)
{
  (void)ev, (void)watcher, (void)events;
  say(CONFIG_LOG_ERROR, "stop", "could not finish within 8 s: exiting immediately; no data is lost");
  _exit(EXIT_FAILED);
}

static void on_timeout(struct ev_loop *ev, ev_timer *watcher, int events)
{
  struct loop *loop = watcher->data;
  (void)ev, (void)events;
  if (loop->stopping)
    return;
  loop->timed_out = true;
  say(CONFIG_LOG_ERROR, "timeout", "--timeout is over, and the queue is not known to be empty");
  stop_all(loop);
  settle_down(loop);
}

static void notify(void *context)
{
  struct loop *loop = context;
  ev_async_send(loop->ev, &loop->done);
}

/* ---- begin ---- */

static void watchers_start(struct loop *loop)
{
  ev_async_init(&loop->done, on_done);
  ev_timer_init(&loop->timer, on_timer, 0., 0.);
  ev_timer_init(&loop->stop_limit, on_stop_limit, (double)STOP_LIMIT_MS / 1000, 0.);
  ev_timer_init(&loop->timeout, on_timeout, (double)loop->options->timeout_ms / 1000, 0.);
  ev_signal_init(&loop->term, on_signal, SIGTERM);
  ev_signal_init(&loop->interrupt, on_signal, SIGINT);
  loop->done.data = loop->timer.data = loop->stop_limit.data = loop->timeout.data = loop->term.data = loop->interrupt.data = loop;
  ev_async_start(loop->ev, &loop->done);
  ev_signal_start(loop->ev, &loop->term);
  ev_signal_start(loop->ev, &loop->interrupt);
  if (loop->options->timeout_ms >= 0)
    ev_timer_start(loop->ev, &loop->timeout);
}

/* False: no memory. */
static bool health_start(struct loop *loop)
{
  int listener = loop->options->health_listener;
  if (listener < 0)
    return true;
  loop->health = health_open(listener, look, loop);
  if (loop->health == NULL)
    return false;
  ev_io_init(&loop->health_io, on_health, health_fd(loop->health), EV_READ);
  ev_timer_init(&loop->health_timer, on_health_timer, 0., 0.);
  loop->health_io.data = loop->health_timer.data = loop;
  ev_io_start(loop->ev, &loop->health_io);
  return true;
}

static void systemd_start(struct loop *loop)
{
  systemd_init(&loop->systemd, clock_boot_ms());
  double period = (double)systemd_period_ms(&loop->systemd) / 1000;
  ev_timer_init(&loop->systemd_timer, on_systemd, 0., period);
  loop->systemd_timer.data = loop;
  if (period > 0)
    ev_timer_start(loop->ev, &loop->systemd_timer);
}

static void wakeups_start(struct loop *loop)
{
  const struct loop_options *options = loop->options;
  struct notification denied = {.kind = NOTIFICATIONS_DENIED};
  struct wakeup_reader *reader =
      wakeup_reader_open(options->performer.store, options->notifications, options->types, options->type_count, &denied.error);
  loop->notifications = notifications_start(reader, notify, loop, &denied.error);
  if (loop->notifications == NULL)
    notifications_log(loop, &denied);
}

static void contexts_init(struct loop *loop)
{
  for (size_t i = 0; i < loop->options->type_count; i++) {
    struct type_context *served = &loop->contexts[i];
    struct performer_options performer = loop->options->performer;
    performer.writer.type = loop->options->types[i];
    served->loop = loop;
    performer_init(&served->performer, &performer);
    consumer_init(&served->consumer, loop->options->types[i], &loop->options->consumer);
    loop->consumers[i] = &served->consumer;
  }
}

_Noreturn void loop_run(const struct loop_options *options)
{
  struct loop loop = {.options = options, .ev = ev_default_loop(0), .started_wall_us = clock_wall_us()};
  struct error error = {.text = "no memory, or libev cannot start"};
  size_t count = options->type_count;
  loop.contexts = calloc(count, sizeof *loop.contexts);
  loop.consumers = calloc(count, sizeof *loop.consumers);
  bool has_last = last_poll_init(&loop.last, options->performer.store, count);
  if (loop.ev == NULL || loop.contexts == NULL || loop.consumers == NULL || !has_last ||
      !jobs_start(&loop.jobs, count, notify, &loop, &error) || !health_start(&loop)) {
    say(CONFIG_LOG_ERROR, "start", error.text);
    stop_now(EXIT_FAILED);
  }
  watchers_start(&loop);
  contexts_init(&loop);
  systemd_start(&loop);
  struct event timer = {.kind = EVENT_TIMER};
  for (size_t i = 0; i < count; i++)
    dispatch(&loop.contexts[i], &timer);
  settle_down(&loop);
  wakeups_start(&loop);
  ev_run(loop.ev, 0);
  int code = exit_code(&loop);
  struct error text;
  error_set(&text, "ends with exit code %d", code);
  say(CONFIG_LOG_INFO, "end", text.text);
  stop_now(code);
}
