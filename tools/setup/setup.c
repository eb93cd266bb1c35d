/*
 * pawl-setup: what an operator does once. It waits for the server, initiates the replica set on request, waits for a primary, and makes the
 * collections and indexes. It also adopts files whose ledger is lost. It skips each step that was done before.
 */
#include "config/config.h"
#include "config/stop.h"
#include "lockstore/initiate.h"
#include "lockstore/mongo.h"
#include "storage/brick.h"
#include "tools/setup/adopt.h"
#include "worker/clock.h"

#include <stdlib.h>
#include <time.h>

enum { REQUEST_MS = 3000, PAUSE_MS = 200, MEMBERS_MAX = 50, CONNECTIONS = 1 };

struct setup {
  struct config config;
  int64_t deadline_ms;
  struct error waiting; /* the last reason for waiting that was printed */
};

static void say(const char *text)
{
  printf("%s\n", text);
  fflush(stdout);
}

static int fail(const struct error *error, int code)
{
  fprintf(stderr, "%spawl-setup: %s\n", config_priority(CONFIG_LOG_ERROR), error->text);
  return code;
}

/* False: the time is over, or a right is missing, which no wait changes. Prints a new reason for waiting. */
static bool wait_on(struct setup *setup, const struct error *error)
{
  if (clock_boot_ms() >= setup->deadline_ms || error->reason == ERROR_RIGHT)
    return false;
  if (setup->config.log_level >= CONFIG_LOG_INFO && strcmp(setup->waiting.text, error->text) != 0)
    fprintf(stderr, "%spawl-setup: waiting: %s\n", config_priority(CONFIG_LOG_INFO), error->text);
  setup->waiting = *error;
  nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000l}, NULL);
  return true;
}

/* Never closed, because the driver would wait half a second for its own threads. */
static struct lockstore *open_store(const char *uri, const char *db, bool direct, struct error *error)
{
  struct lockstore_options options = {
      .uri = uri, .db = db, .timeout_ms = REQUEST_MS, .connections_max = CONNECTIONS, .program = "pawl-setup", .direct = direct};
  return lockstore_open(&options, error);
}

/* ---- the replica set ---- */

static int initiate_with(struct setup *setup, const char *direct, const struct members *members)
{
  struct error error;
  bool made;
  const char *name = setup->config.replica_set;
  struct lockstore *store = open_store(direct, "admin", true, &error);
  if (!store)
    return fail(&error, EXIT_USAGE);
  enum outcome outcome = replica_set_initiate(store, name, members, &made, &error);
  while (outcome == OUTCOME_UNKNOWN && wait_on(setup, &error))
    outcome = replica_set_initiate(store, name, members, &made, &error);
  if (outcome != OUTCOME_YES)
    return fail(&error, mongo_exit_code(outcome, &error));
  printf("replica set %s: %s", name, made ? "initiated, with" : "was initiated already");
  for (size_t i = 0; made && i < members->count; i++)
    printf("%s%s", i ? ", " : " ", members->list[i]);
  say("");
  return EXIT_DONE;
}

/* --member may be a comma-separated list. It is split in place. */
static size_t members_cut(char *list, char **members)
{
  size_t count = 0;
  char *rest = NULL;
  for (char *one = strtok_r(list, ", ", &rest); one && count < MEMBERS_MAX; one = strtok_r(NULL, ", ", &rest))
    members[count++] = one;
  return count;
}

/* The members are those of --member, else the hosts of the URI. */
static int initiate(struct setup *setup)
{
  struct error error;
  char *direct, *hosts[MEMBERS_MAX], *named[MEMBERS_MAX];
  size_t count, named_count;
  int code = EXIT_USAGE;
  if (!uri_split(setup->config.uri, &direct, hosts, MEMBERS_MAX, &count, &error))
    return fail(&error, EXIT_USAGE);
  char *list = strdup(setup->config.member ? setup->config.member : "");
  named_count = list ? members_cut(list, named) : 0;
  struct members members = {.list = (const char *const *)(named_count ? named : hosts), .count = named_count ? named_count : count};
  members.named = named_count > 0 || count > 1;
  if (members.count)
    code = initiate_with(setup, direct, &members);
  for (size_t i = 0; i < count; i++)
    free(hosts[i]);
  free(list);
  free(direct);
  return code;
}

/* ---- the database ---- */

static void show(const struct mongo *mongo)
{
  struct error text;
  mongo_describe(mongo, text.text, sizeof text.text);
  say(text.text);
  const char *wakeups = mongo_avoids_wakeups(mongo) ? "; but wakeups is not pawl's, and is left as it is: workers poll"
                        : mongo_has_wakeups(mongo)  ? "; and wakeups"
                                                    : "; wakeups could not be made: workers poll";
  printf("collections messages, locks and ledger: ready, with their indexes%s\n", wakeups);
  fflush(stdout);
}

static int prepare(struct setup *setup)
{
  struct error error;
  struct lockstore *store = open_store(setup->config.uri, setup->config.db, false, &error);
  if (!store)
    return fail(&error, EXIT_USAGE);
  enum outcome outcome = lockstore_prepare(store, &error);
  while (outcome == OUTCOME_UNKNOWN && wait_on(setup, &error))
    outcome = lockstore_prepare(store, &error);
  if (outcome == OUTCOME_YES)
    show(lockstore_mongo(store));
  return outcome == OUTCOME_YES ? EXIT_DONE : fail(&error, mongo_exit_code(outcome, &error));
}

/* ---- adopting ---- */

static bool confirm(void *context, const char *text)
{
  const struct setup *setup = context;
  char answer[16] = "";
  say(text);
  if (setup->config.yes)
    return true;
  printf("Go on? [y/N] ");
  fflush(stdout);
  return fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y');
}

static int adopt_type(struct setup *setup)
{
  struct error error, text;
  if (brick_holds(setup->config.dir, &error))
    return fail(&error, EXIT_USAGE);
  struct lockstore *store = open_store(setup->config.uri, setup->config.db, false, &error);
  if (!store)
    return fail(&error, EXIT_USAGE);
  enum outcome prepared = lockstore_prepare(store, &error); /* the lock depends on its index, which a restored database may lack */
  if (prepared != OUTCOME_YES)
    return fail(&error, mongo_exit_code(prepared, &error));
  struct adoption adoption = {.type = setup->config.adopt, .dir = setup->config.dir, .confirm = confirm, .context = setup};
  adoption.database = mongo_db(lockstore_mongo(store));
  adoption.server = mongo_server(lockstore_mongo(store));
  error.text[0] = 0;
  enum adopt_status status = adopt(store, &adoption, &error);
  error_set(&text, "database %s on %s: %.600s", adoption.database, adoption.server, error.text);
  switch (status) {
  case ADOPT_DONE:
    say("adopted: the next worker deletes from the queue what the files hold, and continues after them");
    return EXIT_DONE;
  case ADOPT_DECLINED:
    say("nothing was changed");
    return EXIT_FAILED;
  case ADOPT_UNTRUSTED:
    return fail(&text, EXIT_UNTRUSTED);
  case ADOPT_BUSY:
    return fail(&text, EXIT_FAILED);
  case ADOPT_UNAVAILABLE:
    return fail(&text, mongo_exit_code(OUTCOME_UNKNOWN, &error));
  }
  return EXIT_FAILED;
}

int main(int argc, char **argv)
{
  struct setup setup = {0};
  int code;
  stop_at_once();
  if (!config_begin(&setup.config, CONFIG_SETUP, argc, argv, stdout, stderr, &code))
    return code;
  setup.deadline_ms = setup.config.timeout_ms < 0 ? INT64_MAX : clock_boot_ms() + setup.config.timeout_ms;
  code = setup.config.replica_set ? initiate(&setup) : EXIT_DONE;
  if (code == EXIT_DONE)
    code = prepare(&setup);
  if (code == EXIT_DONE && setup.config.adopt)
    code = adopt_type(&setup);
  stop_now(code);
}
