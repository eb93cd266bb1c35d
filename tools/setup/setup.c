/*
 * pawl-setup: what an operator does once. It waits for the server, initiates the replica set on request, waits for a primary, and makes the
 * collections and indexes. It also adopts files whose ledger is lost, moves documents out of the queue that no worker can take, and carries
 * a type to another database. It skips each step that was done before.
 */
#include "config/config.h"
#include "config/stop.h"
#include "lockstore/initiate.h"
#include "lockstore/mongo.h"
#include "lockstore/own_collection.h"
#include "lockstore/queue_name.h"
#include "storage/brick.h"
#include "tools/setup/adopt.h"
#include "tools/setup/aside.h"
#include "tools/setup/carry.h"
#include "tools/setup/own.h"
#include "worker/clock.h"

#include <stdlib.h>
#include <time.h>

enum {
  REQUEST_MS = 3000,
  MOVE_MS = 20000,   /* of a request that moves a document, which may have 16 MiB */
  SCAN_MS = 1800000, /* of one that reads a whole queue */
  PAUSE_MS = 200,
  MEMBERS_MAX = 50,
  CONNECTIONS = 1,
};

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
static struct lockstore *open_patient(const char *uri, const char *db, bool direct, int64_t timeout_ms, struct error *error)
{
  struct lockstore_options options = {
      .uri = uri, .db = db, .timeout_ms = timeout_ms, .connections_max = CONNECTIONS, .program = "pawl-setup", .direct = direct};
  return lockstore_open(&options, error);
}

static struct lockstore *open_store(const char *uri, const char *db, bool direct, struct error *error)
{
  return open_patient(uri, db, direct, REQUEST_MS, error);
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

/* It looks at these itself: others, of which one may have a collection that cannot be used, do not stand in its way. */
static bool is_about_own_collections(const struct config *config)
{
  return config->own_collection || config->shared_collection || config->carry;
}

/* One that was dropped is made again: nothing else makes it as it must be. */
static enum outcome prepare_own(struct lockstore *store, struct error *error)
{
  char(*types)[TYPE_BYTES_MAX + 1];
  size_t count;
  enum outcome outcome = own_collection_types(store, &types, &count, error);
  for (size_t i = 0; i < count && outcome == OUTCOME_YES; i++) {
    struct own_collection ignored;
    outcome = own_collection_look(store, types[i], &ignored, error);
    if (outcome != OUTCOME_NO)
      continue;
    outcome = own_collection_make(store, types[i], error);
    if (outcome == OUTCOME_YES)
      printf("%s: its own collection %s was missing, and is made\n", types[i], queue_name_of(types[i], SOURCE_OWN).text);
  }
  free(types);
  return outcome;
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
  if (outcome == OUTCOME_YES && !is_about_own_collections(&setup->config))
    outcome = prepare_own(store, &error);
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
  adoption.own = setup->config.own_collection;
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

/* ---- carrying ---- */

static int of_carry(enum carry_status status, const struct error *text, const struct error *error)
{
  switch (status) {
  case CARRY_DONE:
    say(text->text);
    return EXIT_DONE;
  case CARRY_DECLINED:
    say("nothing was changed");
    return EXIT_FAILED;
  case CARRY_NOT_NOW:
    return fail(error, EXIT_FAILED);
  case CARRY_WRONG_PLACE:
    return fail(error, EXIT_USAGE);
  case CARRY_UNTRUSTED:
    return fail(error, EXIT_UNTRUSTED);
  case CARRY_UNAVAILABLE:
    return fail(error, mongo_exit_code(OUTCOME_UNKNOWN, error));
  }
  return EXIT_FAILED;
}

/* Opened and prepared: the database of `uri`. */
static struct lockstore *open_prepared(struct setup *setup, const char *uri, const char *db, int *code)
{
  struct error error;
  struct lockstore *store = open_store(uri, db, false, &error);
  if (!store) {
    *code = fail(&error, EXIT_USAGE);
    return NULL;
  }
  enum outcome outcome = lockstore_prepare(store, &error);
  while (outcome == OUTCOME_UNKNOWN && wait_on(setup, &error))
    outcome = lockstore_prepare(store, &error);
  *code = outcome == OUTCOME_YES ? EXIT_DONE : fail(&error, mongo_exit_code(outcome, &error));
  return store;
}

static int carry_type(struct setup *setup)
{
  const struct config *config = &setup->config;
  struct carry carried = {.type = config->carry, .until_ms = setup->deadline_ms, .confirm = confirm, .context = setup};
  struct error text, error;
  int code;
  carried.from = open_prepared(setup, config->uri, config->db, &code);
  if (code == EXIT_DONE)
    carried.to = open_prepared(setup, config->to_uri, config->to_db, &code);
  return code == EXIT_DONE ? of_carry(carry(&carried, &text, &error), &text, &error) : code;
}

/* ---- documents that no worker can take ---- */

static void tell(void *context, const char *text)
{
  (void)context;
  say(text);
}

static void warn(void *context, const char *text)
{
  (void)context;
  fprintf(stderr, "%spawl-setup: %s\n", config_priority(CONFIG_LOG_WARN), text);
}

/* ---- the collection of a type ---- */

static int switch_type(const struct config *config, struct lockstore *store, const char *type)
{
  struct own own = {.store = store, .type = type, .yes = config->yes_typed, .wait_ms = config->timeout_ms, .tell = tell};
  struct error error = {.text = ""};
  enum own_status status = config->own_collection ? own_begin(&own, &error) : own_end(&own, &error);
  switch (status) {
  case OWN_DONE:
    return EXIT_DONE;
  case OWN_REFUSED:
    return fail(&error, EXIT_USAGE);
  case OWN_BUSY:
    return fail(&error, EXIT_FAILED);
  case OWN_UNTRUSTED:
    return fail(&error, EXIT_UNTRUSTED);
  case OWN_UNAVAILABLE:
    return fail(&error, mongo_exit_code(OUTCOME_UNKNOWN, &error));
  }
  return EXIT_FAILED;
}

/* Before anything is asked of a database: a bad name is one wherever it is. */
static int own_names_check(const struct config *config)
{
  struct error error;
  if (config->own_collection && config->adopt && !own_collection_name_check(config->adopt, &error))
    return fail(&error, EXIT_USAGE);
  for (size_t i = 0; config->own_collection && i < config->type_count; i++)
    if (!own_collection_name_check(config->types[i], &error))
      return fail(&error, EXIT_USAGE);
  return EXIT_DONE;
}

static int switch_types(struct setup *setup)
{
  struct error error;
  int code = EXIT_DONE;
  struct lockstore *store = open_store(setup->config.uri, setup->config.db, false, &error);
  if (!store)
    return fail(&error, EXIT_USAGE);
  enum outcome prepared = lockstore_prepare(store, &error);
  if (prepared != OUTCOME_YES)
    return fail(&error, mongo_exit_code(prepared, &error));
  for (size_t i = 0; i < setup->config.type_count; i++) {
    int one = switch_type(&setup->config, store, setup->config.types[i]);
    code = one > code ? one : code;
  }
  return code;
}

/* ---- documents that no worker can take ---- */

/* Of one type, or NULL: of all. Returns the exit code. */
static int aside_type(struct setup *setup, struct aside *aside, size_t *count)
{
  struct error error = {.text = ""};
  enum aside_status status = setup->config.set_aside  ? aside_set(aside, count, &error)
                             : setup->config.put_back ? aside_back(aside, count, &error)
                                                      : aside_list(aside, count, &error);
  switch (status) {
  case ASIDE_DONE:
    return EXIT_DONE;
  case ASIDE_DECLINED:
    say("nothing was changed");
    return EXIT_FAILED;
  case ASIDE_LEFT:
    return EXIT_FAILED;
  case ASIDE_BUSY:
    return fail(&error, EXIT_FAILED);
  case ASIDE_UNTRUSTED:
    return fail(&error, EXIT_UNTRUSTED);
  case ASIDE_UNAVAILABLE:
    return fail(&error, mongo_exit_code(OUTCOME_UNKNOWN, &error));
  }
  return EXIT_FAILED;
}

static int aside_types(struct setup *setup, struct aside *aside)
{
  const char *list = setup->config.set_aside ? setup->config.set_aside : setup->config.put_back;
  char *types = list ? strdup(list) : NULL, *rest = NULL;
  size_t total = 0, count = 0;
  int code = EXIT_DONE;
  if (list && !types)
    return fail(&(struct error){.text = "no memory"}, EXIT_FAILED);
  char *one = types ? strtok_r(types, ",", &rest) : NULL;
  do {
    aside->type = one;
    int one_code = aside_type(setup, aside, &count);
    code = one_code > code ? one_code : code;
    total += count;
    one = one ? strtok_r(NULL, ",", &rest) : NULL;
  } while (one);
  free(types);
  if (list)
    printf("%zu document%s moved %s\n", total, plural((int64_t)total), setup->config.set_aside ? "to refused" : "back to messages");
  fflush(stdout);
  return code;
}

static int aside_run(struct setup *setup)
{
  const struct config *config = &setup->config;
  struct error error;
  struct aside aside = {.wait_ms = config->timeout_ms, .confirm = confirm, .tell = tell, .warn = warn, .context = setup};
  aside.store = open_patient(config->uri, config->db, false, MOVE_MS, &error);
  aside.patient = aside.store ? open_patient(config->uri, config->db, false, SCAN_MS, &error) : NULL;
  if (!aside.patient)
    return fail(&error, EXIT_USAGE);
  enum outcome outcome = mongo_hello(lockstore_mongo(aside.store), &error);
  while (outcome == OUTCOME_UNKNOWN && wait_on(setup, &error))
    outcome = mongo_hello(lockstore_mongo(aside.store), &error);
  if (outcome == OUTCOME_YES)
    outcome = mongo_hello(lockstore_mongo(aside.patient), &error);
  return outcome == OUTCOME_YES ? aside_types(setup, &aside) : fail(&error, mongo_exit_code(outcome, &error));
}

int main(int argc, char **argv)
{
  struct setup setup = {0};
  int code;
  stop_at_once();
  if (!config_begin(&setup.config, CONFIG_SETUP, argc, argv, stdout, stderr, &code))
    return code;
  setup.deadline_ms = setup.config.timeout_ms < 0 ? INT64_MAX : clock_boot_ms() + setup.config.timeout_ms;
  code = own_names_check(&setup.config);
  if (code == EXIT_DONE && setup.config.replica_set)
    code = initiate(&setup);
  if (code == EXIT_DONE && !setup.config.list_refused) /* the list only reads */
    code = prepare(&setup);
  if (code == EXIT_DONE && setup.config.adopt)
    code = adopt_type(&setup);
  if (code == EXIT_DONE && setup.config.carry)
    code = carry_type(&setup);
  if (code == EXIT_DONE && !setup.config.adopt && (setup.config.own_collection || setup.config.shared_collection))
    code = switch_types(&setup);
  if (code == EXIT_DONE && (setup.config.list_refused || setup.config.set_aside || setup.config.put_back))
    code = aside_run(&setup);
  stop_now(code);
}
