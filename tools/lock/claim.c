#include "tools/lock/claim.h"
#include "lockstore/lease.h"
#include "lockstore/ledger.h"
#include "lockstore/mongo.h"
#include "tools/lock/command.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

enum {
  AWAIT_MS_MAX = 1000,   /* longest wait for a wake-up in one request */
  WATCH_AGAIN_MS = 5000, /* pause after the wait for wake-ups was lost, or could not begin */
  BACKOFF_MS = 100,      /* pause when MongoDB does not answer; doubles */
  BACKOFF_MS_MAX = 3000,
};

/* ---- logging, time ---- */

void claim_say(const struct claim *claim, enum config_log_level level, const char *format, ...)
{
  char text[1400];
  va_list arguments;
  if (level > claim->config->log_level)
    return;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "%spawl-lock: %s\n", config_priority(level), text);
}

static int64_t least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static void random_fill(void *bytes, size_t size)
{
  if (getrandom(bytes, size, 0) != (ssize_t)size)
    abort(); /* the kernel always returns up to 256 bytes */
}

/* Adds or removes up to a fifth, so that many processes do not retry at the same moment. */
static int64_t jitter(int64_t ms)
{
  uint64_t random;
  random_fill(&random, sizeof random);
  return ms - ms / 5 + (int64_t)(random % (uint64_t)(2 * (ms / 5) + 1));
}

static int64_t backoff(int64_t failures)
{
  int64_t ms = BACKOFF_MS;
  for (int64_t i = 1; i < failures && ms < BACKOFF_MS_MAX; i++)
    ms *= 2;
  return jitter(least(ms, BACKOFF_MS_MAX));
}

static void sleep_ms(int64_t ms)
{
  struct timespec pause = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
  if (ms > 0)
    nanosleep(&pause, NULL);
}

/* ---- wake-ups ---- */

static bool watch_begins(struct claim *claim)
{
  struct error error;
  struct lockstore_options options = claim->options;
  enum outcome outcome = OUTCOME_REFUSED;
  if (claim->watching || command_now_ms() < claim->watch_next_ms)
    return claim->watching;
  options.await_ms = AWAIT_MS_MAX;
  if (!claim->reader)
    claim->reader = wakeup_reader_open(claim->store, &options, NULL, 0, &error);
  if (claim->reader)
    outcome = wakeup_reader_begin(claim->reader, &error);
  claim->watching = outcome == OUTCOME_YES;
  claim->watch_next_ms = outcome == OUTCOME_REFUSED ? INT64_MAX : command_now_ms() + WATCH_AGAIN_MS;
  if (!claim->watching)
    claim_say(claim, CONFIG_LOG_DEBUG, "no wake-ups come: %s; polls instead", error.text);
  return claim->watching;
}

static void watch(struct claim *claim, int64_t at_most_ms)
{
  struct wakeup wakeup;
  struct error error;
  enum outcome outcome = wakeup_reader_next(claim->reader, at_most_ms, &wakeup, &error);
  if (outcome == OUTCOME_YES) {
    claim->woken = wakeup.about == WAKEUP_LOCK && memcmp(&wakeup.owner, &claim->lock.owner, sizeof wakeup.owner) == 0;
    claim->notified_epoch = claim->woken ? wakeup.epoch : 0;
  } else if (outcome != OUTCOME_NO) {
    claim->watching = false;
    claim_say(claim, CONFIG_LOG_DEBUG, "wake-ups are lost: %s; polls instead", error.text);
  }
}

/* Waits until a wake-up comes, or the next poll is due, or --timeout is over. */
static void wait_for_wakeup(struct claim *claim)
{
  int64_t left_ms, until_ms = command_now_ms() + least(claim->lock.pause_ms, claim->deadline_ms - command_now_ms());
  if (claim->lock.near && !claim->watching && watch_begins(claim))
    return; /* a wake-up may have come before the cursor was open, so poll again */
  while (claim->watching && !claim->woken && (left_ms = until_ms - command_now_ms()) > 0)
    watch(claim, left_ms);
  if (!claim->woken)
    sleep_ms(until_ms - command_now_ms());
}

/* ---- one attempt ---- */

/* Deletes my lock document; it may exist although no answer said so. */
static enum outcome give_back(struct claim *claim, struct error *error)
{
  enum outcome outcome = acquire_release(claim->store, claim->config->name, &claim->lock, claim->epoch, error);
  claim->taken = outcome != OUTCOME_YES && outcome != OUTCOME_NO;
  return outcome;
}

/* Leaves the wait queue, and starts over with a new owner. */
static void start_over(struct claim *claim)
{
  bool tries = claim->lock.tries;
  struct error ignored;
  if (claim->lock.queued && acquire_leave(claim->store, claim->config->name, &claim->lock, true, &ignored) != OUTCOME_YES)
    claim_say(claim, CONFIG_LOG_DEBUG, "%s: stays in the wait queue until its entry expires", claim->config->name);
  acquire_init(&claim->lock, LOCK_BY_TOOL, claim->config->lease_ms, claim->config->retry_ms);
  claim->lock.tries = tries;
}

static enum outcome look(struct claim *claim, struct error *error)
{
  return lock_read(claim->store, claim->config->name, 0, &claim->lock.view, error);
}

/*
 * Does the lock still exist? A fail-over between insert and fence may have undone the insert, and the fence alone does not stop another
 * process from inserting another. The server that acknowledged the fence is the newest primary. REFUSED: the lock document was not written
 * by pawl, so it is not mine; the next read reports what it is.
 */
static enum outcome confirm(struct claim *claim, struct error *error)
{
  enum outcome outcome = look(claim, error);
  if (outcome == OUTCOME_UNKNOWN)
    return outcome;
  const struct lock_view *view = &claim->lock.view;
  bool mine = outcome == OUTCOME_YES && memcmp(&view->owner, &claim->lock.owner, sizeof view->owner) == 0;
  return mine && !view->stealable ? OUTCOME_YES : OUTCOME_NO;
}

/* Sends the fence again while its result is unknown, until two thirds of the lease are over or a signal comes. */
static enum outcome fence(struct claim *claim, const struct ledger *seen, struct error *error)
{
  const char *name = claim->config->name;
  int64_t until_ms = least(claim->sent_ms + lease_safe_ms(claim->config->lease_ms), claim->deadline_ms);
  struct ledger before;
  enum outcome outcome = ledger_fence(claim->store, name, seen->epoch, &claim->lock.owner, FENCER_READER, &before, error);
  for (int64_t row = 1; outcome == OUTCOME_UNKNOWN && !command_signalled(); row++) {
    int64_t left_ms = until_ms - command_now_ms();
    if (left_ms <= 0)
      break;
    sleep_ms(least(backoff(row), left_ms));
    outcome = ledger_fence_again(claim->store, name, seen, &claim->lock.owner, FENCER_READER, &before, error);
  }
  return outcome;
}

static enum outcome insert_and_fence(struct claim *claim, const struct ledger *seen, struct error *error)
{
  claim->sent_ms = command_now_ms();
  claim->epoch = 0;
  enum outcome outcome = acquire_take(claim->store, claim->config->name, &claim->lock, &claim->holder, error);
  claim->taken = outcome != OUTCOME_NO;
  if (outcome != OUTCOME_YES)
    return outcome;
  outcome = fence(claim, seen, error);
  if (outcome != OUTCOME_YES)
    return outcome;
  claim->epoch = seen->epoch + 1;
  return confirm(claim, error);
}

/* If a signal comes meanwhile, this process ends after its lock document is deleted. */
static enum outcome take(struct claim *claim, const struct ledger *seen, struct error *error)
{
  struct error ignored;
  command_signals_hold();
  enum outcome outcome = insert_and_fence(claim, seen, error);
  bool late =
      command_now_ms() >= claim->sent_ms + lease_safe_ms(claim->config->lease_ms); /* the lock would be lost before the command has begun */
  if (outcome == OUTCOME_YES && !late)
    return outcome;
  if (outcome == OUTCOME_YES)
    outcome = OUTCOME_NO;
  if (claim->taken && give_back(claim, &ignored) != OUTCOME_UNKNOWN)
    start_over(claim);
  command_signals_release();
  if (outcome == OUTCOME_NO)
    (void)look(claim, &ignored); /* find out which process was faster */
  return outcome;
}

static enum outcome get_ready(struct claim *claim, struct error *error)
{
  enum outcome outcome = claim->prepared ? OUTCOME_YES : lockstore_prepare(claim->store, error);
  claim->prepared = outcome == OUTCOME_YES;
  if (outcome != OUTCOME_YES || !claim->taken)
    return outcome;
  if (give_back(claim, error) == OUTCOME_UNKNOWN)
    return OUTCOME_UNKNOWN;
  start_over(claim);
  return OUTCOME_YES;
}

/* YES: acquired. NO: not yet. UNKNOWN: no answer. REFUSED: never; *code is the exit code. */
static enum outcome attempt(struct claim *claim, int *code, struct error *error)
{
  struct ledger ledger = {0};
  *code = EXIT_USAGE;
  enum outcome outcome = get_ready(claim, error);
  if (outcome != OUTCOME_YES)
    return outcome;
  *code = EXIT_FAILED;
  claim->lock.listens = claim->watching;
  outcome = claim->woken ? OUTCOME_YES : acquire_look(claim->store, claim->config->name, &claim->lock, &claim->holder, error);
  claim->woken = false;
  if (outcome != OUTCOME_YES)
    return outcome;
  *code = EXIT_UNTRUSTED;
  /*
   * Read before the insert: otherwise a process that was overtaken after its insert could fence the new holder. The releasing holder may
   * have sent the epoch with the wake-up; a wrong epoch fences no process.
   */
  ledger.epoch = claim->notified_epoch;
  claim->notified_epoch = 0;
  if (ledger.epoch == 0)
    outcome = ledger_read(claim->store, claim->config->name, &ledger, error);
  return outcome == OUTCOME_UNKNOWN || outcome == OUTCOME_REFUSED ? outcome : take(claim, &ledger, error);
}

/* ---- acquiring ---- */

static void say_waiting(struct claim *claim)
{
  const struct lock_view *view = &claim->lock.view;
  if (!claim->said_waiting && view->left_ms > 0)
    claim_say(claim, CONFIG_LOG_INFO, "waits for %s, held by %s, pid %" PRId64 " (%s)", claim->config->name, view->holder.host,
              view->holder.pid, view->holder.program);
  claim->said_waiting = claim->said_waiting || view->left_ms > 0;
}

/* Logs once when it begins and once when it is over. */
static void say_away(struct claim *claim, bool away, const struct error *error)
{
  if (away && !claim->said_away && error->reason != ERROR_OTHER)
    claim_say(claim, CONFIG_LOG_WARN, "%s; trying again", error->text);
  else if (away && !claim->said_away)
    claim_say(claim, CONFIG_LOG_WARN, "MongoDB gives no answer: %s; trying again until it does", error->text);
  else if (!away && claim->said_away)
    claim_say(claim, CONFIG_LOG_INFO, "MongoDB answers again");
  claim->said_away = away;
}

static int timed_out(struct claim *claim, enum outcome outcome, const struct error *error)
{
  const struct lock_view *view = &claim->lock.view;
  if (outcome == OUTCOME_UNKNOWN)
    claim_say(claim, CONFIG_LOG_ERROR, "%s: the time is over, and whether it is free is not known: %s", claim->config->name, error->text);
  else if (view->left_ms > 0)
    claim_say(claim, CONFIG_LOG_ERROR, "%s: the time is over, and it is held by %s, pid %" PRId64 " (%s)", claim->config->name,
              view->holder.host, view->holder.pid, view->holder.program);
  else
    claim_say(claim, CONFIG_LOG_ERROR, "%s: the time is over, and others were faster", claim->config->name);
  return outcome == OUTCOME_UNKNOWN ? mongo_exit_code(outcome, error) : EXIT_UNAVAILABLE;
}

int claim_acquire(struct claim *claim)
{
  struct error error;
  int code;
  claim->lock.tries = command_now_ms() >= claim->deadline_ms;
  for (;;) {
    enum outcome outcome = attempt(claim, &code, &error);
    if (outcome == OUTCOME_REFUSED) {
      claim_say(claim, CONFIG_LOG_ERROR, "%s", error.text);
      start_over(claim);
      return code;
    }
    say_away(claim, outcome == OUTCOME_UNKNOWN, &error);
    claim->failures = outcome == OUTCOME_UNKNOWN ? claim->failures + 1 : 0;
    if (outcome == OUTCOME_YES)
      return EXIT_DONE;
    if (command_now_ms() >= claim->deadline_ms) {
      code = timed_out(claim, outcome, &error);
      if (outcome != OUTCOME_UNKNOWN) /* MongoDB would not answer this request, either */
        start_over(claim);
      return code;
    }
    if (outcome == OUTCOME_UNKNOWN) {
      sleep_ms(least(backoff(claim->failures), claim->deadline_ms - command_now_ms()));
    } else {
      say_waiting(claim);
      wait_for_wakeup(claim);
    }
  }
}

/* ---- holding ---- */

enum outcome claim_renew(struct claim *claim, struct error *error)
{
  int64_t sent_ms = command_now_ms();
  enum outcome outcome = lock_renew(claim->store, claim->config->name, 0, &claim->lock.owner, claim->config->lease_ms, error);
  if (outcome == OUTCOME_YES)
    claim->sent_ms = sent_ms;
  return outcome;
}

bool claim_release(struct claim *claim, struct error *error)
{
  int64_t until_ms = least(command_now_ms() + CLAIM_RELEASE_MS, claim->sent_ms + claim->config->lease_ms);
  while (give_back(claim, error) == OUTCOME_UNKNOWN && command_now_ms() < until_ms)
    sleep_ms(jitter(BACKOFF_MS));
  return !claim->taken;
}

/* ---- forgetting ---- */

/*
 * Checks that there is something to forget, and that it belongs to a lock; changes nothing. YES: there is. NO: there is nothing. REFUSED:
 * *code.
 */
static enum outcome find_forgettable(struct claim *claim, int *code, struct error *error)
{
  struct ledger ledger;
  *code = EXIT_USAGE;
  enum outcome outcome = get_ready(claim, error);
  if (outcome != OUTCOME_YES)
    return outcome;
  outcome = ledger_read(claim->store, claim->config->name, &ledger, error);
  *code = outcome == OUTCOME_REFUSED ? EXIT_UNTRUSTED : EXIT_FAILED;
  if (outcome == OUTCOME_NO)
    return look(claim, error);
  if (outcome != OUTCOME_YES || (ledger.end.file[0] == '\0' && ledger.end.seq == 0))
    return outcome;
  error_set(error, "%s is a type with files (%s): its ledger knows where they end, and stays", claim->config->name, ledger.end.file);
  return OUTCOME_REFUSED;
}

/* Do not retry without the right: a wait does not change it. */
static bool forget_tries_again(enum outcome outcome, const struct error *error, int64_t until_ms)
{
  return outcome == OUTCOME_UNKNOWN && error->reason != ERROR_RIGHT && command_now_ms() < until_ms;
}

static int forget_held(struct claim *claim)
{
  const char *name = claim->config->name;
  struct error error, ignored;
  int64_t until_ms = least(command_now_ms() + CLAIM_RELEASE_MS, claim->sent_ms + claim->config->lease_ms);
  enum outcome outcome = ledger_forget(claim->store, name, claim->epoch, &claim->lock.owner, &error);
  while (forget_tries_again(outcome, &error, until_ms)) {
    sleep_ms(jitter(BACKOFF_MS));
    outcome = ledger_forget_again(claim->store, name, claim->epoch, &claim->lock.owner, &error);
  }
  claim->epoch = 0; /* do not send waiters an epoch that no longer exists */
  while (forget_tries_again(give_back(claim, &ignored), &ignored, until_ms))
    sleep_ms(jitter(BACKOFF_MS));
  command_signals_release();
  if (outcome == OUTCOME_YES)
    claim_say(claim, CONFIG_LOG_INFO, "%s: forgotten; its epochs start over", name);
  else
    claim_say(claim, CONFIG_LOG_ERROR, "%s: %s", name,
              outcome == OUTCOME_NO ? "another process took the lock meanwhile: nothing was forgotten" : error.text);
  return mongo_exit_code(outcome, &error);
}

int claim_forget(struct claim *claim)
{
  struct error error;
  int code;
  if (claim->config->timeout_ms < 0)
    claim->deadline_ms = command_now_ms();
  enum outcome outcome = find_forgettable(claim, &code, &error);
  if (outcome == OUTCOME_NO)
    claim_say(claim, CONFIG_LOG_INFO, "%s: there is no such lock", claim->config->name);
  if (outcome == OUTCOME_REFUSED || outcome == OUTCOME_UNKNOWN)
    claim_say(claim, CONFIG_LOG_ERROR, "%s", error.text);
  if (outcome != OUTCOME_YES)
    return outcome == OUTCOME_NO ? EXIT_DONE : outcome == OUTCOME_REFUSED ? code : mongo_exit_code(outcome, &error);
  code = claim_acquire(claim);
  return code == EXIT_DONE ? forget_held(claim) : code;
}

/* ---- begin and end ---- */

bool claim_open(struct claim *claim, const struct config *config, struct error *error)
{
  *claim = (struct claim){.config = config};
  claim->options = (struct lockstore_options){.uri = config->uri,
                                              .db = config->db,
                                              .timeout_ms = lease_request_ms(config->lease_ms),
                                              .majority_ms = lease_majority_ms(config->lease_ms),
                                              .connections_max = 1,
                                              .program = config_program_name(CONFIG_LOCK)};
  claim->deadline_ms = config->timeout_ms < 0 ? INT64_MAX : command_now_ms() + config->timeout_ms;
  claim->store = lockstore_open(&claim->options, error);
  if (claim->store)
    lock_holder_self(&claim->holder, LOCK_BY_TOOL, "pawl-lock " PAWL_VERSION);
  acquire_init(&claim->lock, LOCK_BY_TOOL, config->lease_ms, config->retry_ms);
  return claim->store != NULL;
}

void claim_end_waiting(struct claim *claim)
{
  wakeup_reader_close(claim->reader);
  claim->reader = NULL;
  claim->watching = false;
}
