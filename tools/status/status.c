/*
 * pawl-status: shows the holder, the length of the queue and the progress of each type. It only reads: it makes no collection and no index.
 *
 * As a table, or with --json one document a type and line, for programs:
 *
 *   type            string; the types are those that have a ledger, a lock or a message, or those of --type. null: kind is untyped
 *   kind            type; lock: of pawl-lock, with a ledger or a holder and never a file; invalid: not a valid type name, so that no worker
 *                   can serve it (`type` is JSON then, in ASCII: "\"t1\\u0000\""); untyped: all documents whose `type` is not a string
 *   queued          documents in the queue, a bundle being one; null: they could not be counted in time
 *   oldest_age_ms   age of the oldest of them, from its ObjectId, by the server's clock; null: none waits, or it is not known (always for
 *                   untyped)
 *   oldest_seen     true: the oldest one's _id is no ObjectId, and oldest_age_ms is the time since --watch first saw it (0 without it);
 *                   only then
 *   holder          {host, pid, program, boot, name if it has one}; null: no holder, or a malformed lock document (a problem)
 *   lease_left_ms   of the holder's lease, by the server's clock; 0 or below: expired; null without a holder
 *   slots           {held, of}: only of a lock with slots; holder and lease are those of the first that is held
 *   waiting         processes in the wait queue of the lock
 *   epoch           0: there is no ledger yet
 *   clean           whether the last holder left in order
 *   seq, messages, settled, length, tail  as in the ledger, which calls messages `items`; 0 where they do not apply. seq and settled
 *                   count documents, messages what is in them: a bundle has many
 *   file            the current segment; null: none
 *   uuid            of the file's header, 32 hex digits; null without a file
 *   link            as 16 hex digits (two's complement of the ledger's int64); null without a file
 *   machine         boot id of the kernel that wrote the end; null: none
 *   rate            messages a second since the last output; --watch only, and not the first time
 *   paused          {by, reason, at}: only while the type is paused
 *   moved           {to, by, at}: only where the type was moved to another database; then without `paused`
 *   problem         why the ledger or the lock could not be read; only then, and the exit code is 1
 *
 * Without --type it also checks whether workers would refuse the database. If so there is one more line, {database, refused: why}, and the
 * exit code is 2; if this cannot be checked, stderr says so.
 */
#include "tools/status/status.h"
#include "config/stop.h"
#include "lockstore/mongo.h"
#include "tools/patience.h"
#include "tools/status/pause.h"
#include "tools/status/top.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { TIMEOUT_MS = 5000, CONNECTIONS = 1 };

struct overview_types status_types(const struct config *config)
{
  return (struct overview_types){.names = config->types, .count = config->type_count};
}

static bool has_problem(const struct overview *overview)
{
  for (size_t i = 0; i < overview->count; i++)
    if (overview->rows[i].problem)
      return true;
  return false;
}

static int exit_code_of(enum outcome outcome, const struct overview *overview, const struct error *error)
{
  if (outcome != OUTCOME_YES)
    return mongo_exit_code(outcome, error);
  return overview->usable == OUTCOME_REFUSED ? EXIT_USAGE : has_problem(overview) ? EXIT_FAILED : EXIT_DONE;
}

/* A long queue may not be counted in time; then its length is unknown, and the rest is still shown. */
static enum outcome gather(const struct config *config, struct lockstore *store, struct overview *overview, const struct overview *before,
                           struct error *error)
{
  struct overview_types types = status_types(config);
  struct error ignored;
  enum outcome outcome = overview_read(overview, store, &types, before, error);
  if (outcome == OUTCOME_YES && overview->queue_known && overview_count(overview, store, &types, &ignored) == OUTCOME_REFUSED) {
    *error = ignored; /* no memory */
    return OUTCOME_REFUSED;
  }
  if (outcome == OUTCOME_YES && types.count == 0)
    overview_inspect(overview, store);
  return outcome;
}

/* Shows the state once. *before holds the previous state, and is replaced by this one. */
static int show(const struct config *config, struct lockstore *store, struct overview *before)
{
  struct overview overview = {.count = 0};
  struct error error, waiting;
  error_set(&waiting, "pawl-status: waiting for %.400s to answer\n", mongo_server(lockstore_mongo(store)));
  patience_begin(waiting.text);
  enum outcome outcome = gather(config, store, &overview, before, &error);
  patience_end();
  if (config->watch && isatty(STDOUT_FILENO))
    fputs("\033[H\033[2J", stdout);
  if (outcome != OUTCOME_YES)
    fprintf(stderr, "%spawl-status: %s\n", config_priority(CONFIG_LOG_ERROR), error.text);
  else if (config->json)
    status_print_json(&overview, config->watch);
  else
    status_print_text(&overview, config->watch);
  int code = exit_code_of(outcome, &overview, &error);
  if (fflush(stdout) != 0 || ferror(stdout))
    code = EXIT_FAILED;
  if (outcome == OUTCOME_YES) {
    overview_free(before);
    *before = overview;
  } else {
    overview_free(&overview);
  }
  return code;
}

/* pawl-status only reads, so there is nothing to finish. */
static void on_signal(int number)
{
  (void)number;
  _exit(EXIT_DONE);
}

static void watch_begin(void)
{
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

static int show_all(const struct config *config, struct lockstore *store)
{
  struct overview before = {.count = 0};
  if (config->watch)
    watch_begin();
  int code = show(config, store, &before);
  while (config->watch && !ferror(stdout)) {
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    code = show(config, store, &before);
  }
  return code;
}

static int run(const struct config *config, struct lockstore *store)
{
  if (config->check)
    return status_check_once(config, store);
  if (config->top)
    return status_top(config, store);
  if (config->peek)
    return status_peek(config, store);
  if (config->pause)
    return status_pause(store, config->pause, config->reason);
  if (config->resume)
    return status_resume(store, config->resume);
  return show_all(config, store);
}

int main(int argc, char **argv)
{
  struct config config;
  struct error error;
  int code;
  stop_at_once();
  if (!config_begin(&config, CONFIG_STATUS, argc, argv, stdout, stderr, &code))
    return code;
  struct lockstore_options options = {
      .uri = config.uri, .db = config.db, .timeout_ms = TIMEOUT_MS, .connections_max = CONNECTIONS, .program = "pawl-status"};
  struct lockstore *store = lockstore_open(&options, &error);
  if (!store) {
    fprintf(stderr, "%spawl-status: %s\n", config_priority(CONFIG_LOG_ERROR), error.text);
    config_free(&config);
    return EXIT_USAGE;
  }
  stop_now(run(&config, store));
}
