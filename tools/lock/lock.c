/*
 * pawl-lock: runs a command while it holds a lock of the library (pawl/lock.h): flock(1) across machines.
 *
 * It also keeps out a worker of a type of this name, and it does not change a file of that type. The command is dead before another process
 * may hold the lock, as far as signals reach: they do not reach a process that has left the command's group, or a frozen machine. For these
 * cases there is the epoch, PAWL_LOCK_EPOCH in the command's environment: it rises with every holder, so a server that the command writes
 * to can refuse the lower one.
 */
#include "config/stop.h"
#include "lockstore/lease.h"
#include "lockstore/mongo.h"
#include "tools/lock/command.h"
#include "tools/lock/environment.h"
#include "tools/lock/hold.h"
#include "tools/lock/show.h"

#include <poll.h>
#include <unistd.h>

/* ---- while the command runs ---- */

/* The library renews the lease; the command's own clock follows it. False: a lock is lost. */
static bool grant(struct session *session)
{
  int64_t lease_ms = session->config->lease_ms, left_ms = INT64_MAX;
  for (int i = 0; i < session->count; i++) {
    int64_t of_one_ms = pawl_left_ms(session->pawl, session->holds[i]);
    left_ms = of_one_ms < left_ms ? of_one_ms : left_ms;
  }
  int64_t sent_ms = command_now_ms() + left_ms - lease_safe_ms(lease_ms);
  if (left_ms > 0 && sent_ms > session->sent_ms) {
    session->sent_ms = sent_ms;
    command_grant(sent_ms, lease_renew_ms(lease_ms));
  }
  return left_ms > 0;
}

/* Returns the command's exit code, or that of --lost-exit if it did not have the locks to its end. */
static int run(struct session *session)
{
  const struct config *config = session->config;
  struct pollfd polled = {.fd = session->events, .events = POLLIN};
  struct error error = {.text = "no memory for the command's environment"};
  char **environment = environment_new(session);
  int code;
  if (!grant(session)) { /* before the command starts: a freeze may come at any time */
    session_lost(session, session->names[0], "it could not be renewed in time");
    return (int)config->lost_exit;
  }
  if (environment == NULL || !command_start(config->command, environment, &error)) {
    session_say(config, CONFIG_LOG_ERROR, "%s", error.text);
    return EXIT_FAILED;
  }
  while (!command_wait(&polled, command_now_ms() + lease_renew_ms(config->lease_ms) / 4, &code)) {
    session_events(session);
    (void)grant(session);
    if (command_overdue())
      session_lost(session, session->names[0], "it could not be renewed in time");
  }
  if (command_overdue()) {
    session_lost(session, session->names[0], "it could not be renewed in time");
    command_rest_end();
  }
  return session->lost ? (int)config->lost_exit : code;
}

/* ---- main ---- */

static int take_and_run(struct session *session)
{
  command_signals_hold();
  if (!session_take(session)) {
    if (!session->config->hold)
      command_signals_release();
    return session->code;
  }
  if (session->config->hold)
    return hold_run(session);
  bool stopped = command_signalled();
  int code = stopped ? EXIT_FAILED : run(session);
  session_release(session);
  if (stopped)
    command_signals_release();
  return code;
}

static int forget(struct session *session)
{
  const struct config *config = session->config;
  const char *name = config->forget;
  struct pawl_error error;
  enum pawl_result result = pawl_forget(session->pawl, name, config->timeout_ms < 0 ? PAWL_NO_WAIT : config->timeout_ms, &error);
  if (result == PAWL_OK) {
    session_say(config, CONFIG_LOG_INFO, "%s: forgotten", name);
    return EXIT_DONE;
  }
  const char *why = session_text(name, error.text);
  bool type = result == PAWL_REFUSED && why == error.text;
  session_say(config, result == PAWL_NOTHING ? CONFIG_LOG_INFO : CONFIG_LOG_ERROR, "%s%s%s%s", type ? "" : name, type ? "" : ": ",
              result == PAWL_BUSY || result == PAWL_TIMEOUT ? "the time is over, and " : "", why);
  return type ? EXIT_FAILED : session_exit_code(result);
}

static int prune(struct session *session)
{
  struct pawl_error error;
  size_t count;
  enum pawl_result result = pawl_prune(session->pawl, &count, &error);
  if (result == PAWL_OK)
    session_say(session->config, CONFIG_LOG_INFO, "locks forgotten: %zu", count);
  else
    session_say(session->config, CONFIG_LOG_ERROR, "%s", error.text);
  return result == PAWL_OK ? EXIT_DONE : session_exit_code(result);
}

static int lock_and_run(const struct config *config)
{
  struct session session = {.config = config, .code = EXIT_FAILED};
  struct error error;
  struct pawl_error wrong;
  const struct pawl_options options = {.size = sizeof options,
                                       .uri = config->uri,
                                       .db = config->db,
                                       .program = "pawl-lock " PAWL_VERSION,
                                       .lease_ms = config->lease_ms,
                                       .retry_ms = config->retry_ms};
  if (!environment_check(config, &error)) {
    fprintf(stderr, "%spawl-lock: %s\n", config_priority(CONFIG_LOG_ERROR), error.text);
    return EXIT_USAGE;
  }
  if (!command_init(&error)) {
    fprintf(stderr, "%spawl-lock: %s\n", config_priority(CONFIG_LOG_ERROR), error.text);
    return EXIT_FAILED;
  }
  if (pawl_open(&options, &session.pawl, &wrong) != PAWL_OK) {
    fprintf(stderr, "%spawl-lock: --uri or --db: %s\n", config_priority(CONFIG_LOG_ERROR), wrong.text);
    return EXIT_USAGE;
  }
  session.events = pawl_fd(session.pawl);
  if (config->list || config->show != NULL)
    return show_run(&session);
  if (config->break_name != NULL)
    return break_run(&session);
  if (config->prune)
    return prune(&session);
  return config->forget != NULL ? forget(&session) : take_and_run(&session);
}

int main(int argc, char **argv)
{
  struct config config;
  int code;
  stop_at_once();
  mongo_start();
  if (!config_begin(&config, CONFIG_LOCK, argc, argv, stdout, stderr, &code))
    return code;
  stop_now(lock_and_run(&config));
}
