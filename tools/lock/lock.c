/*
 * pawl-lock: runs a command while it holds the mutex {type: NAME, slot: 0}: flock(1) across machines.
 *
 * It also keeps out a worker of a type of this name, and it does not change a file of that type. The command is dead before another process
 * may hold the lock, as far as signals reach: they do not reach processes that the command has started, or a frozen machine. For these
 * cases there is the epoch, PAWL_LOCK_EPOCH in the command's environment: it rises with every holder, so a server that the command writes
 * to can refuse the lower one.
 */
#include "config/stop.h"
#include "lockstore/lease.h"
#include "tools/lock/claim.h"
#include "tools/lock/command.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define EPOCH_VARIABLE "PAWL_LOCK_EPOCH="
static char epoch_variable[sizeof EPOCH_VARIABLE + 20] = EPOCH_VARIABLE;

/* The entry in the environment is made before there are threads that read it. */
static bool environment_init(const char *name, struct error *error)
{
  if (setenv("PAWL_LOCK_NAME", name, 1) == 0 && putenv(epoch_variable) == 0)
    return true;
  error_set(error, "no memory for the environment");
  return false;
}

/* ---- while the command runs ---- */

struct lease {
  struct claim *claim;
  int64_t third_ms;
  int64_t renew_ms; /* on the boot-time clock */
  bool lost, said_unknown;
};

static void lost(struct lease *lease, const char *why)
{
  if (lease->lost)
    return;
  lease->lost = true;
  lease->renew_ms = INT64_MAX;
  claim_say(lease->claim, CONFIG_LOG_ERROR, "%s: the lock is lost: %s; ending the command", lease->claim->config->name, why);
}

static void renewed(struct lease *lease)
{
  command_grant(lease->claim->sent_ms, lease->third_ms);
  lease->renew_ms = lease->claim->sent_ms + lease->third_ms;
  if (lease->said_unknown)
    claim_say(lease->claim, CONFIG_LOG_INFO, "%s: the lock is renewed again", lease->claim->config->name);
  lease->said_unknown = false;
}

static void renew(struct lease *lease)
{
  struct error error;
  switch (claim_renew(lease->claim, &error)) {
  case OUTCOME_YES:
    renewed(lease);
    return;
  case OUTCOME_NO:
    command_end();
    lost(lease, "its lease expired, or its document was removed, and another process may hold it");
    return;
  case OUTCOME_UNKNOWN:
  case OUTCOME_REFUSED:
    lease->renew_ms = command_now_ms() + lease->third_ms / 8;
    if (!lease->said_unknown)
      claim_say(lease->claim, CONFIG_LOG_WARN, "%s: %s; tries again", lease->claim->config->name, error.text);
    lease->said_unknown = true;
  }
}

/* Returns the command's exit code, or EXIT_FAILED if it did not have the lock to its end. */
static int run(struct claim *claim)
{
  struct lease lease = {.claim = claim, .third_ms = lease_renew_ms(claim->config->lease_ms)};
  struct error error;
  int code;
  snprintf(epoch_variable + strlen(EPOCH_VARIABLE), 21, "%" PRId64, claim->epoch);
  if (!command_start(claim->config->command, &error)) {
    claim_say(claim, CONFIG_LOG_ERROR, "%s", error.text);
    return EXIT_FAILED;
  }
  renewed(&lease);
  claim_end_waiting(claim);
  while (!command_wait(lease.renew_ms, &code)) {
    if (!command_overdue())
      renew(&lease);
    if (command_overdue())
      lost(&lease, "it could not be renewed in time");
  }
  if (command_overdue())
    lost(&lease, "it could not be renewed in time");
  return lease.lost ? EXIT_FAILED : code;
}

/* ---- main ---- */

struct ending {
  struct claim *claim;
  int code;
  bool stopped; /* ended by a signal, before the command ran */
};

/*
 * The release is one request, and if the server is frozen the request waits for a third of the lease. This limit is a moment later than
 * claim_release's own.
 */
_Noreturn static void *ending_limit(void *context)
{
  const struct ending *ending = context;
  nanosleep(&(struct timespec){.tv_sec = CLAIM_RELEASE_MS / 1000, .tv_nsec = 500 * 1000000L}, NULL);
  claim_say(ending->claim, CONFIG_LOG_WARN, "%s: MongoDB gives no answer; the lock ends with its lease", ending->claim->config->name);
  if (ending->stopped)
    command_signals_release();
  stop_now(ending->code);
}

static int acquire_and_run(struct claim *claim)
{
  struct error error;
  pthread_t limit;
  int code = claim_acquire(claim);
  if (code != EXIT_DONE)
    return code;
  bool stopped = command_signalled();
  claim_say(claim, CONFIG_LOG_DEBUG, "%s: holds the lock, epoch %" PRId64, claim->config->name, claim->epoch);
  if (!stopped)
    code = run(claim);
  static struct ending ending; /* it may outlive this function */
  ending = (struct ending){.claim = claim, .code = code, .stopped = stopped};
  if (pthread_create(&limit, NULL, ending_limit, &ending) == 0)
    pthread_detach(limit);
  if (!claim_release(claim, &error))
    claim_say(claim, CONFIG_LOG_WARN, "%s: %s; the lock ends with its lease", claim->config->name, error.text);
  if (stopped)
    command_signals_release();
  return code;
}

static int lock_and_run(const struct config *config)
{
  struct claim claim;
  struct error error;
  if (!command_init(&error) || !environment_init(config->name, &error)) {
    fprintf(stderr, "%spawl-lock: %s\n", config_priority(CONFIG_LOG_ERROR), error.text);
    return EXIT_FAILED;
  }
  if (!claim_open(&claim, config, &error)) {
    fprintf(stderr, "%spawl-lock: --uri or --db: %s\n", config_priority(CONFIG_LOG_ERROR), error.text);
    return EXIT_USAGE;
  }
  return config->forget ? claim_forget(&claim) : acquire_and_run(&claim);
}

int main(int argc, char **argv)
{
  struct config config;
  int code;
  stop_at_once();
  if (!config_begin(&config, CONFIG_LOCK, argc, argv, stdout, stderr, &code))
    return code;
  stop_now(lock_and_run(&config));
}
