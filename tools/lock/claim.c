#include "tools/lock/claim.h"
#include "lockstore/lease.h"
#include "lockstore/mongo.h"
#include "tools/lock/command.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

enum {
  AWAIT_MS_MAX = 1000,   /* longest wait for a wake-up: the lock is read at least this often */
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

/* Adds or removes up to a fifth, so that many processes do not come at the same moment. */
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

static int64_t await_ms(const struct claim *claim)
{
  return least(claim->config->lease_ms / 2, AWAIT_MS_MAX); /* less than what is left of a lease that its holder renews */
}

static bool watch_begins(struct claim *claim)
{
  struct error error;
  struct lockstore_options options = claim->options;
  enum outcome outcome = OUTCOME_REFUSED;
  if (claim->watching || command_now_ms() < claim->watch_next_ms)
    return claim->watching;
  options.await_ms = await_ms(claim);
  if (!claim->watcher)
    claim->watcher = watcher_open_box(claim->store, &options, &error);
  if (claim->watcher)
    outcome = watcher_begin(claim->watcher, &error);
  claim->watching = outcome == OUTCOME_YES;
  claim->watch_next_ms = outcome == OUTCOME_REFUSED ? INT64_MAX : command_now_ms() + WATCH_AGAIN_MS;
  if (!claim->watching)
    claim_say(claim, CONFIG_LOG_DEBUG, "no wake-ups come: %s; looks by its timer", error.text);
  return claim->watching;
}

static void watch(struct claim *claim)
{
  struct wakeup wakeup;
  struct error error;
  enum outcome outcome = watcher_next(claim->watcher, &wakeup, &error);
  if (outcome == OUTCOME_YES) {
    claim->woken = wakeup.about == WAKEUP_LOCK && strcmp(wakeup.type, claim->config->name) == 0;
    claim->epoch_told = claim->woken ? wakeup.epoch : 0;
  } else if (outcome != OUTCOME_NO) {
    claim->watching = false;
    claim_say(claim, CONFIG_LOG_DEBUG, "wake-ups are lost: %s; looks by its timer", error.text);
  }
}

/* Waits until a wake-up comes, or it is time to read the lock again: at the known end of the lease, or of --timeout, at the latest. */
static void wait_for_news(struct claim *claim)
{
  struct error ignored;
  bool held = claim->view.left_ms > 0, yields = claim->yields && claim->watching;
  claim->yields = false;
  int64_t most_ms = least(claim->deadline_ms - command_now_ms(), held ? claim->view.left_ms + 1 : INT64_MAX);
  if (yields && most_ms >= await_ms(claim)) {
    watch(claim);
    return;
  }
  if (held && most_ms >= await_ms(claim) && watch_begins(claim)) {
    enum outcome row = claim->view.waits ? OUTCOME_YES : lock_wait(claim->store, claim->config->name, 0, &claim->view.owner, &ignored);
    claim->in_row = row == OUTCOME_YES;
    if (row == OUTCOME_YES)
      watch(claim);
    if (row == OUTCOME_YES || row == OUTCOME_NO) /* the holder has changed: read the lock again */
      return;
  }
  sleep_ms(least(most_ms, jitter(claim->config->retry_ms)));
}

/* ---- one attempt ---- */

/* Deletes my lock document; it may exist although no answer said so. */
static enum outcome give_back(struct claim *claim, struct error *error)
{
  enum outcome outcome = lock_release(claim->store, claim->config->name, 0, &claim->owner, claim->fenced ? claim->epoch : 0, error);
  claim->taken = outcome != OUTCOME_YES && outcome != OUTCOME_NO;
  return outcome;
}

static enum outcome look(struct claim *claim, struct error *error)
{
  return lock_read(claim->store, claim->config->name, 0, &claim->view, error);
}

/*
 * Does the lock still exist? A fail-over between insert and fence may have undone the insert, and the fence alone does not stop another
 * process from inserting anew. The server that acknowledged the fence is the newest primary. REFUSED: the lock document was not written by
 * pawl, so it is not mine; the next read reports what it is.
 */
static enum outcome confirm(struct claim *claim, struct error *error)
{
  enum outcome outcome = look(claim, error);
  if (outcome == OUTCOME_UNKNOWN)
    return outcome;
  bool mine = outcome == OUTCOME_YES && memcmp(&claim->view.owner, &claim->owner, sizeof claim->owner) == 0;
  return mine && !claim->view.stealable ? OUTCOME_YES : OUTCOME_NO;
}

/* Sends the fence again while its result is unknown, until two thirds of the lease are over or a signal comes. */
static enum outcome fence(struct claim *claim, const struct ledger *seen, struct error *error)
{
  const char *name = claim->config->name;
  int64_t until_ms = least(claim->sent_ms + lease_safe_ms(claim->config->lease_ms), claim->deadline_ms);
  struct ledger before;
  enum outcome outcome = ledger_fence(claim->store, name, seen->epoch, &claim->owner, FENCER_READER, &before, error);
  for (int64_t row = 1; outcome == OUTCOME_UNKNOWN && !command_signalled(); row++) {
    int64_t left_ms = until_ms - command_now_ms();
    if (left_ms <= 0)
      break;
    sleep_ms(least(backoff(row), left_ms));
    outcome = ledger_fence_again(claim->store, name, seen, &claim->owner, FENCER_READER, &before, error);
  }
  return outcome;
}

static enum outcome insert_and_fence(struct claim *claim, const struct ledger *seen, struct error *error)
{
  const char *name = claim->config->name;
  random_fill(&claim->owner, sizeof claim->owner);
  claim->sent_ms = command_now_ms();
  claim->fenced = false;
  enum outcome outcome = lock_take(claim->store, name, 0, &claim->owner, claim->config->lease_ms, &claim->holder, error);
  claim->taken = outcome != OUTCOME_NO;
  if (outcome != OUTCOME_YES)
    return outcome;
  claim->epoch = seen->epoch + 1;
  outcome = fence(claim, seen, error);
  claim->fenced = outcome == OUTCOME_YES;
  return claim->fenced ? confirm(claim, error) : outcome;
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
  if (claim->taken)
    (void)give_back(claim, &ignored);
  command_signals_release();
  if (outcome == OUTCOME_NO)
    (void)look(claim, &ignored); /* find out which process was faster */
  return outcome;
}

static enum outcome get_ready(struct claim *claim, struct error *error)
{
  enum outcome outcome = claim->prepared ? OUTCOME_YES : lockstore_prepare(claim->store, error);
  claim->prepared = outcome == OUTCOME_YES;
  if (outcome == OUTCOME_YES && claim->taken && give_back(claim, error) == OUTCOME_UNKNOWN)
    outcome = OUTCOME_UNKNOWN;
  return outcome;
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
  bool woken = claim->woken, in_row = claim->in_row;
  outcome = woken ? OUTCOME_NO : look(claim, error);
  claim->woken = claim->in_row = false;
  bool expired = outcome == OUTCOME_YES && claim->view.stealable;
  /*
   * Just released. Back off once so that the notified waiter can take it. That waiter may be this process, and its wake-up carries the
   * inherited waiters.
   */
  claim->yields = outcome == OUTCOME_NO && in_row && !woken;
  if (outcome != OUTCOME_NO && !expired)
    return outcome == OUTCOME_YES ? OUTCOME_NO : outcome;
  if (claim->yields)
    return OUTCOME_NO;
  *code = EXIT_UNTRUSTED;
  /*
   * Read before the insert: otherwise a process that was overtaken after its insert could fence the new holder. The releasing holder may
   * have sent the epoch with the wake-up; a wrong epoch fences no process.
   */
  ledger.epoch = claim->epoch_told;
  claim->epoch_told = 0;
  if (ledger.epoch == 0)
    outcome = ledger_read(claim->store, claim->config->name, &ledger, error);
  if (outcome == OUTCOME_UNKNOWN || outcome == OUTCOME_REFUSED)
    return outcome;
  outcome = expired ? lock_steal(claim->store, claim->config->name, 0, &claim->view.owner, error) : OUTCOME_YES;
  return outcome == OUTCOME_YES ? take(claim, &ledger, error) : outcome;
}

/* ---- acquiring ---- */

static void say_waiting(struct claim *claim)
{
  const struct lock_view *view = &claim->view;
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
  const struct lock_view *view = &claim->view;
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
  for (;;) {
    enum outcome outcome = attempt(claim, &code, &error);
    if (outcome == OUTCOME_REFUSED) {
      claim_say(claim, CONFIG_LOG_ERROR, "%s", error.text);
      return code;
    }
    say_away(claim, outcome == OUTCOME_UNKNOWN, &error);
    claim->failures = outcome == OUTCOME_UNKNOWN ? claim->failures + 1 : 0;
    if (outcome == OUTCOME_YES)
      return EXIT_DONE;
    if (command_now_ms() >= claim->deadline_ms)
      return timed_out(claim, outcome, &error);
    if (outcome == OUTCOME_UNKNOWN) {
      sleep_ms(least(backoff(claim->failures), claim->deadline_ms - command_now_ms()));
    } else {
      say_waiting(claim);
      wait_for_news(claim);
    }
  }
}

/* ---- holding ---- */

enum outcome claim_renew(struct claim *claim, struct error *error)
{
  int64_t sent_ms = command_now_ms();
  enum outcome outcome = lock_renew(claim->store, claim->config->name, 0, &claim->owner, claim->config->lease_ms, error);
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
  enum outcome outcome = ledger_forget(claim->store, name, claim->epoch, &claim->owner, &error);
  while (forget_tries_again(outcome, &error, until_ms)) {
    sleep_ms(jitter(BACKOFF_MS));
    outcome = ledger_forget_again(claim->store, name, claim->epoch, &claim->owner, &error);
  }
  claim->fenced = false; /* do not send waiters an epoch that no longer exists */
  while (forget_tries_again(give_back(claim, &ignored), &ignored, until_ms))
    sleep_ms(jitter(BACKOFF_MS));
  command_signals_release();
  if (outcome == OUTCOME_YES)
    claim_say(claim, CONFIG_LOG_INFO, "%s: forgotten; its epochs begin anew", name);
  else
    claim_say(claim, CONFIG_LOG_ERROR, "%s: %s", name, outcome == OUTCOME_NO ? "another was faster: nothing was forgotten" : error.text);
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
    lock_holder_self(&claim->holder, "pawl-lock " PAWL_VERSION);
  return claim->store != NULL;
}

void claim_end_waiting(struct claim *claim)
{
  watcher_close(claim->watcher);
  claim->watcher = NULL;
  claim->watching = false;
}
