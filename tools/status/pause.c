#include "tools/status/pause.h"
#include "config/config.h"
#include "lockstore/acquire.h"
#include "lockstore/ledger.h"
#include "lockstore/mongo.h"
#include "lockstore/wakeup.h"
#include "tools/patience.h"
#include "tools/person.h"
#include "tools/turn.h"
#include "worker/clock.h"

#include <inttypes.h>

enum {
  LEASE_MS = 30000,
  TRIES_MS = 15000, /* for the requests before and after the wait */
};

static int fail(const char *text, int code)
{
  fprintf(stderr, "%spawl-status: %s\n", config_priority(CONFIG_LOG_ERROR), text);
  return code;
}

/* An election takes some seconds. */
static enum outcome prepare(struct lockstore *store, struct error *error)
{
  int64_t until_ms = clock_boot_ms() + TRIES_MS;
  enum outcome outcome = lockstore_prepare(store, error);
  while (outcome == OUTCOME_UNKNOWN && error->reason == ERROR_OTHER && clock_boot_ms() < until_ms) {
    turn_rest();
    outcome = lockstore_prepare(store, error);
  }
  return outcome;
}

/* ---- the lock ---- */

/*
 * As pawl-lock: so the holder ends its block, and leaves in order. After its lease it is paused all the same: a holder that is frozen, or
 * cut off, must not hinder that. Then the fence keeps it from the file.
 */
static bool lock_take_in_time(struct lockstore *store, const char *type, struct acquisition *lock)
{
  struct lock_holder holder;
  struct error error;
  struct turn turn = {.store = store, .type = type, .lock = lock, .holder = &holder, .patience = TURN_LEASE};
  turn.began_ms = clock_boot_ms();
  lock_holder_self(&holder, LOCK_BY_TOOL, "pawl-status --pause");
  acquire_init(lock, LOCK_BY_TOOL, LEASE_MS, TURN_RETRY_MS);
  enum outcome outcome = turn_take(&turn, &error);
  if (outcome != OUTCOME_YES)
    fprintf(stderr, "%spawl-status: %s: %s: pausing without the lock%s%s\n", config_priority(CONFIG_LOG_WARN), type, turn_failure(outcome),
            error.text[0] ? ": " : "", error.text);
  return outcome == OUTCOME_YES;
}

/* ---- pausing ---- */

/* EXIT_DONE: it may be paused, as far as its ledger says. */
static int check(enum outcome outcome, const char *type, const struct ledger *ledger, const struct error *error)
{
  struct error text, moved;
  if (ledger_moved(outcome, type, ledger, &moved) == OUTCOME_REFUSED && outcome == OUTCOME_YES)
    return fail(moved.text, EXIT_USAGE);
  if (outcome == OUTCOME_REFUSED)
    return fail(error->text, EXIT_USAGE);
  if (outcome == OUTCOME_YES && ledger->paused)
    error_set(&text, "%s is paused already, by %s: %s", type, ledger->pause.by, ledger->pause.reason);
  else if (outcome == OUTCOME_YES && ledger->slots > 0)
    error_set(&text, "%s is a lock with %d slots, and no type", type, ledger->slots);
  else
    return EXIT_DONE;
  return fail(text.text, EXIT_FAILED);
}

static int fail_unknown(const char *type, const char *why, const struct error *error)
{
  struct error text;
  error_set(&text, "%.800s. Whether %s is paused is not known: pawl-status shows it", why, type);
  return fail(text.text, mongo_exit_code(OUTCOME_UNKNOWN, error));
}

static int say_paused(const char *type, const struct ledger *ledger)
{
  printf("%s: paused, at epoch %" PRId64 " and seq %" PRId64 ". pawl-status --resume %s ends it\n", type, ledger->epoch, ledger->end.seq,
         type);
  if (ledger->end.file[0] == '\0')
    fprintf(stderr, "%spawl-status: %s has no file yet: is the name right?\n", config_priority(CONFIG_LOG_WARN), type);
  return EXIT_DONE;
}

/*
 * Reads the ledger, and pauses it if it is as it was read. An answer that does not come is judged by the next reading: there is a pause
 * with this id, or there is none.
 */
static int ledger_pause(struct lockstore *store, const char *type, const struct owner *owner, const struct ledger_pause *pause)
{
  int64_t until_ms = clock_boot_ms() + TRIES_MS;
  for (;;) {
    struct ledger ledger, before;
    struct error error = {.text = ""};
    enum outcome outcome = ledger_read(store, type, &ledger, &error);
    if (outcome == OUTCOME_YES && ledger.paused && memcmp(ledger.pause.id, pause->id, sizeof pause->id) == 0)
      return say_paused(type, &ledger);
    int code = check(outcome, type, &ledger, &error);
    if (code != EXIT_DONE)
      return code;
    if (outcome != OUTCOME_UNKNOWN)
      outcome = ledger_pause_begin(store, type, ledger.epoch, owner, pause, &before, &error);
    if (outcome == OUTCOME_REFUSED)
      return fail(error.text, EXIT_USAGE);
    if (outcome == OUTCOME_YES)
      continue; /* it reads what it has written */
    if (clock_boot_ms() >= until_ms)
      return fail_unknown(type, outcome == OUTCOME_NO ? "the ledger moves again and again" : error.text, &error);
    turn_rest();
  }
}

int status_pause(struct lockstore *store, const char *type, const char *reason)
{
  struct acquisition lock;
  struct ledger_pause pause = {.at_ms = 0};
  struct ledger ledger;
  struct error error;
  enum outcome outcome = prepare(store, &error);
  if (outcome != OUTCOME_YES)
    return fail(error.text, mongo_exit_code(outcome, &error));
  int code = check(ledger_read(store, type, &ledger, &error), type, &ledger, &error);
  if (code != EXIT_DONE)
    return code;
  error_set(&error, "pawl-status: waiting for the holder of %s to finish its block\n", type);
  lockstore_random(store, pause.id, sizeof pause.id);
  person_name(pause.by, sizeof pause.by);
  snprintf(pause.reason, sizeof pause.reason, "%s", reason);
  patience_begin(error.text);
  bool locked = lock_take_in_time(store, type, &lock);
  patience_end();
  code = ledger_pause(store, type, &lock.owner, &pause);
  if (locked && acquire_release(store, type, &lock, 0, &error) == OUTCOME_UNKNOWN) {
    /* The lease ends by itself, and no worker waits for it. */
  }
  return code;
}

/* ---- resuming ---- */

/* By the id that was seen: another pause that begins meanwhile stays. */
static enum outcome pause_end(struct lockstore *store, const char *type, struct error *error)
{
  int64_t until_ms = clock_boot_ms() + TRIES_MS;
  struct ledger ledger = {.paused = false};
  enum outcome outcome = ledger_read(store, type, &ledger, error);
  while (outcome == OUTCOME_UNKNOWN && clock_boot_ms() < until_ms) {
    turn_rest();
    outcome = ledger_read(store, type, &ledger, error);
  }
  outcome = ledger_moved(outcome, type, &ledger, error);
  if (outcome != OUTCOME_YES || !ledger.paused)
    return outcome == OUTCOME_YES ? OUTCOME_NO : outcome;
  outcome = ledger_pause_end(store, type, ledger.pause.id, error);
  while (outcome == OUTCOME_UNKNOWN && clock_boot_ms() < until_ms) {
    turn_rest();
    outcome = ledger_pause_end(store, type, ledger.pause.id, error);
  }
  return outcome == OUTCOME_NO ? OUTCOME_YES : outcome; /* it was paused, and is not any more */
}

int status_resume(struct lockstore *store, const char *type)
{
  struct error error;
  enum outcome outcome = prepare(store, &error);
  if (outcome == OUTCOME_YES)
    outcome = pause_end(store, type, &error);
  if (outcome == OUTCOME_NO) {
    error_set(&error, "%s is not paused", type);
    return fail(error.text, EXIT_FAILED);
  }
  if (outcome != OUTCOME_YES)
    return fail(error.text, mongo_exit_code(outcome, &error));
  if (wakeup_send(store, type, WAKEUP_MESSAGE, NULL, 0, &error) != OUTCOME_YES) {
    /* The workers look every second. */
  }
  printf("%s: the workers go on\n", type);
  return EXIT_DONE;
}
