/*
 * pawl-status: shows the holder, the length of the queue and the progress of each type. It only reads: it makes no collection and no index.
 *
 * As a table, or with --json one document a type and line, for programs:
 *
 *   type            string; the types are those that have a ledger, a lock or a message, or those of --type. null: kind is untyped
 *   kind            type; lock: of pawl-lock, with a ledger or a holder and never a file; invalid: not a valid type name, so that no worker
 *                   can serve it (`type` is JSON then, in ASCII: "\"t1\\u0000\""); untyped: all documents whose `type` is not a string
 *   queued          documents in the queue, a bundle being one; null: they could not be counted in time
 *   holder          {host, pid, program, boot}, or null: no holder, or (then there is a problem) a lock document that is malformed
 *   lease_left_ms   of the holder's lease, by the server's clock; 0 or below: expired; null without a holder
 *   slots           {held, of}: only of a lock with slots; holder and lease are those of the first that is held
 *   epoch           0: there is no ledger yet
 *   clean           whether the last holder left in order
 *   seq, messages, settled, length, tail  as in the ledger, which calls messages `items`; 0 where they do not apply. seq and settled
 *                   count documents, messages what is in them: a bundle has many
 *   file            the current segment; null: none
 *   uuid            of the file's header, 32 hex digits; null without a file
 *   link            as 16 hex digits (two's complement of the ledger's int64); null without a file
 *   machine         boot id of the kernel that wrote the end; null: none
 *   rate            messages a second since the last output; --watch only, and not the first time
 *   problem         why the ledger or the lock could not be read; only then, and the exit code is 1
 *
 * Without --type it also checks whether workers would refuse the database. If so there is one more line, {database, refused: why}, and the
 * exit code is 2; if this cannot be checked, stderr says so.
 */
#include "tools/status/status.h"
#include "config/stop.h"
#include "lockstore/mongo.h"
#include "tools/patience.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { TIMEOUT_MS = 5000, CONNECTIONS = 1 };

static bool has_problem(const struct status_table *table)
{
  for (size_t i = 0; i < table->count; i++)
    if (table->rows[i].problem.text[0])
      return true;
  return false;
}

static int exit_code_of(enum outcome outcome, const struct status_table *table, const struct error *error)
{
  if (outcome != OUTCOME_YES)
    return mongo_exit_code(outcome, error);
  return table->usable == OUTCOME_REFUSED ? EXIT_USAGE : has_problem(table) ? EXIT_FAILED : EXIT_DONE;
}

/* Shows the state once. *before holds the previous state, and is replaced by this one. */
static int show(const struct config *config, struct lockstore *store, struct status_table *before)
{
  struct status_table table = {.config = config};
  struct error error, waiting;
  error_set(&waiting, "pawl-status: waiting for %.400s to answer\n", mongo_server(lockstore_mongo(store)));
  patience_begin(waiting.text);
  enum outcome outcome = status_gather(&table, store, &error);
  patience_end();
  if (config->watch && isatty(STDOUT_FILENO))
    fputs("\033[H\033[2J", stdout);
  if (outcome == OUTCOME_YES) {
    status_compute_rates(&table, before);
    if (config->json)
      status_print_json(&table);
    else
      status_print_text(&table);
  } else {
    fprintf(stderr, "%spawl-status: %s\n", config_priority(CONFIG_LOG_ERROR), error.text);
  }
  int code = exit_code_of(outcome, &table, &error);
  if (fflush(stdout) != 0 || ferror(stdout))
    code = EXIT_FAILED;
  free(before->rows);
  *before = table;
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
  struct status_table before = {0};
  if (config.watch)
    watch_begin();
  code = show(&config, store, &before);
  while (config.watch && !ferror(stdout)) {
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    code = show(&config, store, &before);
  }
  stop_now(code);
}
