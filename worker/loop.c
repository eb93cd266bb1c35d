#include "worker/loop.h"
#include "config/stop.h"
#include "lockstore/mongo.h"
#include "worker/clock.h"
#include "worker/log.h"
#include "worker/loop_private.h"

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

struct watchers {
  struct ev_loop *ev;
  ev_async done;
  ev_timer timer, stop_limit, timeout;
  ev_signal term, interrupt, hangup, user;
  ev_io health_io;
  ev_timer health_timer, systemd_timer;
};

int loop_connections(void)
{
  return jobs_connections();
}

static struct moment moment_now(void)
{
  struct moment moment = {.now_ms = clock_boot_ms(), .wall_us = clock_wall_us()};
  if (getrandom(moment.random, sizeof moment.random, 0) != (ssize_t)sizeof moment.random)
    abort(); /* cannot happen for so few bytes; a nonce that is none must not be used */
  return moment;
}

/* ---- notes ---- */

void loop_say(enum config_log_level level, const char *event, const char *text)
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

void loop_look(void *context, struct metrics_view *view)
{
  const struct loop *loop = context;
  struct jobs_state jobs;
  jobs_look(&loop->jobs, &jobs);
  *view = (struct metrics_view){
      .consumers = loop->consumers,
      .consumer_count = loop->context_count,
      .listed_count = loop->options->type_count,
      .forgotten = loop->finder != NULL ? &loop->finder->forgotten : NULL,
      .now_ms = clock_boot_ms(),
      .started_wall_us = loop->started_wall_us,
      .asked = loop->database.asked,
      .away = loop->database.away,
      .refuses = loop->database.refused != 0,
      .wakes = loop->notified,
      .stopping = loop->stopping,
      .memory_used_bytes = jobs.memory_used,
      .memory_max_bytes = jobs.memory_most,
      .threads = jobs.threads.threads,
      .threads_max = jobs.threads.threads_most,
      .lasting = jobs.threads.lasting,
      .jobs_waiting = jobs.threads.waiting,
  };
  view->clock_seen = mongo_clock_offset(lockstore_mongo(loop->options->performer.store), &view->clock_offset_us);
  if (loop->space != NULL)
    space_look(loop->space, view->now_ms, &view->space);
  loop_types_look(loop, view);
}

const char *loop_summary(struct loop *loop)
{
  struct metrics_view view;
  loop_look(loop, &view);
  metrics_summary(&view, loop->summary, sizeof loop->summary);
  return loop->summary;
}

static void health_turn(struct loop *loop)
{
  health_run(loop->health);
  int64_t ms = health_timeout_ms(loop->health);
  ev_timer_stop(loop->watchers->ev, &loop->watchers->health_timer);
  if (ms < 0)
    return;
  ev_now_update(loop->watchers->ev);
  ev_timer_set(&loop->watchers->health_timer, (double)ms / 1000, 0.);
  ev_timer_start(loop->watchers->ev, &loop->watchers->health_timer);
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
  systemd_tick(&loop->systemd, clock_boot_ms(), loop_summary(loop));
}

/* Once the database was asked the first time, whatever the answer: a refusal is a start that failed, an absent database is not. */
static void ready_tell(struct loop *loop)
{
  if (loop->ready_sent || !loop->database.asked)
    return;
  loop->ready_sent = true;
  systemd_ready(&loop->systemd, loop_summary(loop));
}

/* ---- actions ---- */

void loop_dispatch(struct type_context *served, const struct event *event)
{
  struct effects effects;
  struct moment moment = moment_now();
  consumer_handle(&served->consumer, event, &moment, &effects);
  events_write(served, &effects);
  performer_until(&served->performer, consumer_until_ms(&served->consumer));
  jobs_hold(&served->loop->jobs, &served->performer, consumer_bytes(&served->consumer));
  served->running += (size_t)effects.action_count;
  for (int i = 0; i < effects.action_count; i++)
    jobs_submit(&served->loop->jobs, &served->performer, served, &effects.actions[i]);
  if (effects.drop_read)
    jobs_drop_read(&served->loop->jobs, &served->performer);
}

/* ---- the end ---- */

static void stop_all(struct loop *loop)
{
  struct event stop = {.kind = EVENT_STOP};
  if (loop->stopping)
    return;
  loop->stopping = true;
  atomic_store(&loop->jobs.stopping, true);
  ev_timer_start(loop->watchers->ev, &loop->watchers->stop_limit);
  for (size_t i = 0; i < loop->context_count; i++)
    loop_dispatch(loop->contexts[i], &stop);
  systemd_stopping(&loop->systemd, loop_summary(loop));
}

/* --exit-when-empty: when each type has found its queue empty, all are polled once more, together. */
static void last_poll_step(struct loop *loop)
{
  if (loop->stopping || loop->finder != NULL || !last_poll_is_due(&loop->last)) /* while it runs, what it polls for is its own */
    return;
  loop->last.type_count = 0;
  for (size_t i = 0; i < loop->context_count; i++) {
    const struct consumer *consumer = &loop->contexts[i]->consumer;
    if (consumer_is_quiet(consumer))
      loop->last.types[loop->last.type_count++] = consumer->core.type;
    else if (!consumer_is_over(consumer))
      return;
  }
  if (loop->last.type_count > 0)
    last_poll_start(&loop->last, loop->jobs.executor);
}

void loop_wake_all(struct loop *loop)
{
  struct event event = {.kind = EVENT_WAKE, .about = WAKEUP_MESSAGE};
  for (size_t i = 0; i < loop->context_count && !loop->stopping; i++)
    loop_dispatch(loop->contexts[i], &event);
}

static void last_poll_handle(struct loop *loop)
{
  if (!last_poll_done(&loop->last)) {
    if (loop->last.outcome == OUTCOME_YES)
      loop_wake_all(loop);
    return;
  }
  loop_say(CONFIG_LOG_INFO, "empty", "no message is left");
  stop_all(loop);
}

static int exit_code(const struct loop *loop)
{
  bool refused = loop->finder != NULL && loop->finder->refused;
  int code = refused ? EXIT_USAGE : loop->timed_out ? loop->database.denied ? EXIT_USAGE : EXIT_UNAVAILABLE : EXIT_DONE;
  for (size_t i = 0; i < loop->context_count; i++) {
    const struct consumer *consumer = &loop->contexts[i]->consumer;
    if (consumer->core.state == STATE_STOPPED)
      return consumer->core.refused ? EXIT_USAGE : EXIT_UNTRUSTED;
  }
  return code;
}

/* After whatever happened: the next timer, the look at the whole queue, the end. */
static void settle_down(struct loop *loop)
{
  int64_t now = clock_boot_ms(), look_ms = loop_types_step(loop);
  jobs_renew(&loop->jobs);
  if (loop->options->exit_when_empty)
    last_poll_step(loop);
  if (loop_types_over(loop) && !loop->last.running) {
    ev_break(loop->watchers->ev, EVBREAK_ALL);
    return;
  }
  ready_tell(loop);
  size_t busy = 0;
  for (size_t i = 0; i < loop->context_count; i++)
    busy += consumer_is_busy(&loop->contexts[i]->consumer, now);
  int64_t wake = jobs_tend(&loop->jobs, busy);
  for (size_t i = 0; i < loop->context_count; i++) {
    int64_t at = consumer_wake_ms(&loop->contexts[i]->consumer);
    wake = at < wake ? at : wake;
  }
  wake = look_ms < wake ? look_ms : wake;
  ev_timer_stop(loop->watchers->ev, &loop->watchers->timer);
  if (wake == INT64_MAX)
    return;
  ev_now_update(loop->watchers->ev);
  ev_timer_set(&loop->watchers->timer, wake > now ? (double)(wake - now) / 1000 : 0, 0.);
  ev_timer_start(loop->watchers->ev, &loop->watchers->timer);
}

/* ---- watchers ---- */

static void action_done(void *context, void *of, struct completion *completion)
{
  struct loop *loop = context;
  struct event event = {.kind = EVENT_COMPLETION, .completion = completion};
  struct type_context *served = of;
  served->running--;
  database_log_action(&loop->database, completion);
  bool known = database_log_server(&loop->database, completion, loop->options->performer.store);
  if (known && loop->notifications != NULL && !loop->stopping)
    notifications_go(loop->notifications);
  loop_dispatch(served, &event);
}

static void other_done(void *context, struct job *job)
{
  (void)job; /* it is the last poll's */
  last_poll_handle(context);
}

/* What a look has found out may end the process. */
static void finder_end(struct loop *loop)
{
  if (loop->finder->empty && !loop->stopping)
    loop_say(CONFIG_LOG_INFO, "empty", "no message is left");
  if (loop->finder->empty || loop->finder->refused)
    stop_all(loop);
}

static void on_done(struct ev_loop *ev, ev_async *watcher, int events)
{
  struct loop *loop = watcher->data;
  (void)ev, (void)events;
  jobs_take(&loop->jobs, &(struct jobs_taker){.action = action_done, .other = other_done, .context = loop});
  loop_wakeups_take(loop);
  loop_types_take(loop);
  if (loop->finder != NULL)
    finder_end(loop);
  loop_take_reload(loop);
  settle_down(loop);
}

static void on_timer(struct ev_loop *ev, ev_timer *watcher, int events)
{
  struct loop *loop = watcher->data;
  struct event timer = {.kind = EVENT_TIMER};
  int64_t now = clock_boot_ms();
  (void)ev, (void)events;
  for (size_t i = 0; i < loop->context_count; i++)
    if (consumer_wake_ms(&loop->contexts[i]->consumer) <= now)
      loop_dispatch(loop->contexts[i], &timer);
  settle_down(loop);
}

void loop_stop(struct loop *loop, const char *why)
{
  if (loop->signalled) {
    loop_say(CONFIG_LOG_ERROR, "stop", "asked to stop a second time: exiting immediately; no data is lost");
    _exit(EXIT_FAILED);
  }
  loop->signalled = true;
  loop_say(CONFIG_LOG_INFO, "stop", why);
  stop_all(loop);
  settle_down(loop);
}

static void on_signal(struct ev_loop *ev, ev_signal *watcher, int events)
{
  (void)ev, (void)events;
  loop_stop(watcher->data, "asked to stop: finishing the batch in hand");
}

static void on_hangup(struct ev_loop *ev, ev_signal *watcher, int events)
{
  (void)ev, (void)events;
  loop_hangup(watcher->data);
}

static void on_user(struct ev_loop *ev, ev_signal *watcher, int events)
{
  (void)ev, (void)events;
  loop_report(watcher->data);
}

static void on_stop_limit(struct ev_loop *ev, ev_timer *watcher, int events)
{
  (void)ev, (void)watcher, (void)events;
  loop_say(CONFIG_LOG_ERROR, "stop", "could not finish within 8 s: exiting immediately; no data is lost");
  _exit(EXIT_FAILED);
}

static void on_timeout(struct ev_loop *ev, ev_timer *watcher, int events)
{
  struct loop *loop = watcher->data;
  (void)ev, (void)events;
  if (loop->stopping)
    return;
  loop->timed_out = true;
  loop_say(CONFIG_LOG_ERROR, "timeout", "--timeout is over, and the queue is not known to be empty");
  stop_all(loop);
  settle_down(loop);
}

static void notify(void *context)
{
  struct loop *loop = context;
  ev_async_send(loop->watchers->ev, &loop->watchers->done);
}

/* ---- begin ---- */

/* SIGHUP and SIGUSR1 were held back until now (worker.c). A SIGHUP that was ignored when the process was started (nohup) stays ignored. */
static void commands_start(struct watchers *watchers)
{
  struct sigaction given;
  sigset_t held;
  if (sigaction(SIGHUP, NULL, &given) == 0 && given.sa_handler != SIG_IGN)
    ev_signal_start(watchers->ev, &watchers->hangup);
  ev_signal_start(watchers->ev, &watchers->user);
  sigemptyset(&held);
  sigaddset(&held, SIGHUP);
  sigaddset(&held, SIGUSR1);
  sigprocmask(SIG_UNBLOCK, &held, NULL);
}

static void watchers_start(struct loop *loop)
{
  struct watchers *watchers = loop->watchers;
  ev_async_init(&watchers->done, on_done);
  ev_timer_init(&watchers->timer, on_timer, 0., 0.);
  ev_timer_init(&watchers->stop_limit, on_stop_limit, (double)STOP_LIMIT_MS / 1000, 0.);
  ev_timer_init(&watchers->timeout, on_timeout, (double)loop->options->timeout_ms / 1000, 0.);
  ev_signal_init(&watchers->term, on_signal, SIGTERM);
  ev_signal_init(&watchers->interrupt, on_signal, SIGINT);
  ev_signal_init(&watchers->hangup, on_hangup, SIGHUP);
  ev_signal_init(&watchers->user, on_user, SIGUSR1);
  watchers->done.data = watchers->timer.data = watchers->stop_limit.data = watchers->timeout.data = loop;
  watchers->term.data = watchers->interrupt.data = watchers->hangup.data = watchers->user.data = loop;
  ev_async_start(watchers->ev, &watchers->done);
  ev_signal_start(watchers->ev, &watchers->term);
  ev_signal_start(watchers->ev, &watchers->interrupt);
  loop_commands_start(loop);
  commands_start(watchers);
  if (loop->options->timeout_ms >= 0)
    ev_timer_start(watchers->ev, &watchers->timeout);
}

/* False: no memory, or no thread. */
static bool health_start(struct loop *loop, struct error *error)
{
  int listener = loop->options->health_listener;
  if (listener < 0)
    return true;
  loop->health = health_open(listener, loop_look, loop);
  loop->space = space_watch(loop->options->performer.writer.dir, error);
  if (loop->health == NULL || loop->space == NULL)
    return false;
  ev_io_init(&loop->watchers->health_io, on_health, health_fd(loop->health), EV_READ);
  ev_timer_init(&loop->watchers->health_timer, on_health_timer, 0., 0.);
  loop->watchers->health_io.data = loop->watchers->health_timer.data = loop;
  ev_io_start(loop->watchers->ev, &loop->watchers->health_io);
  return true;
}

static void systemd_start(struct loop *loop)
{
  systemd_init(&loop->systemd, clock_boot_ms());
  double period = (double)systemd_period_ms(&loop->systemd) / 1000;
  ev_timer_init(&loop->watchers->systemd_timer, on_systemd, 0., period);
  loop->watchers->systemd_timer.data = loop;
  if (period > 0)
    ev_timer_start(loop->watchers->ev, &loop->watchers->systemd_timer);
}

_Noreturn void loop_run(const struct loop_options *options)
{
  struct watchers watchers = {.ev = ev_default_loop(0)};
  struct loop loop = {.options = options, .watchers = &watchers, .started_wall_us = clock_wall_us()};
  struct error error = {.text = "no memory, or libev cannot start"};
  size_t count = options->type_count;
  loop.reload = reload_new(&options->reload, notify, &loop);
  bool has_last = last_poll_init(&loop.last, options->performer.store, count + 1);
  if (watchers.ev == NULL || loop.reload == NULL || !has_last ||
      !jobs_start(&loop.jobs, options->performer.store, options->memory_bytes, notify, &loop, &error) || !health_start(&loop, &error) ||
      !loop_types_start(&loop, notify, &error)) {
    loop_say(CONFIG_LOG_ERROR, "start", error.text);
    stop_now(EXIT_FAILED);
  }
  watchers_start(&loop);
  systemd_start(&loop);
  struct event timer = {.kind = EVENT_TIMER};
  for (size_t i = 0; i < count; i++)
    loop_dispatch(loop.contexts[i], &timer);
  settle_down(&loop);
  loop_wakeups_start(&loop, notify);
  ev_run(watchers.ev, 0);
  int code = exit_code(&loop);
  struct error text;
  error_set(&text, "ends with exit code %d", code);
  loop_say(CONFIG_LOG_INFO, "end", text.text);
  stop_now(code);
}
