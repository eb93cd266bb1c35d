/* pawl-worker: drains the queues of its types into their files. */
#include "config/config.h"
#include "config/stop.h"
#include "lockstore/lease.h"
#include "lockstore/mongo.h"
#include "storage/brick.h"
#include "worker/fault.h"
#include "worker/health.h"
#include "worker/log.h"
#include "worker/loop.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  AWAIT_MS = 10000, /* for wake-ups: six requests a minute */
  DISTRUST_MS = 60000,
  PREPARED_MS = 60000,    /* then collections and indexes are looked at again */
  DESCRIPTORS_BASE = 256, /* the connections of the threads that all types share */
  DESCRIPTORS_PER_TYPE = 4,
  TYPES_BUSY = 1000, /* of very many types as many can be busy at the same time, at least */
  HEAP_BYTES_KEPT = 64 * 1024 * 1024,
  RANGE_MESSAGES_MIN = 64, /* a transaction costs one more request than deleting by `_id`s does */
};

static void identity_fill(struct writer_identity *identity, struct lock_holder *holder, const char *name)
{
  lock_holder_self(holder, LOCK_BY_WORKER, "pawl-worker " PAWL_VERSION);
  snprintf(holder->name, sizeof holder->name, "%s", name != NULL ? name : "");
  snprintf(identity->host, sizeof identity->host, "%s", holder->host);
  snprintf(identity->machine, sizeof identity->machine, "%s", holder->boot);
  identity->pid = holder->pid;
}

/* A wrong --dir is found out now, not when the first message comes. */
static bool dir_usable(const char *dir)
{
  struct stat status;
  struct error error, brick;
  errno = 0;
  bool usable = stat(dir, &status) == 0 && S_ISDIR(status.st_mode) && access(dir, R_OK | W_OK | X_OK) == 0;
  if (usable && !brick_holds(dir, &brick))
    return true;
  if (usable)
    error_set(&error, "--dir: %.1000s", brick.text);
  else
    error_set(&error, "--dir: got \"%s\": %s; takes an existing directory that this user may write to", dir,
              errno != 0 ? strerror(errno) : "not a directory");
  log_say(CONFIG_LOG_ERROR, "start", error.text);
  return false;
}

static rlim_t descriptors_for(size_t types, bool health)
{
  return DESCRIPTORS_BASE + types * DESCRIPTORS_PER_TYPE + (health ? HEALTH_DESCRIPTORS : 0);
}

/* A busy type needs a connection, its file and a directory now and then; without them MongoDB would seem to be away. */
static bool descriptors_enough(size_t types, bool health)
{
  struct rlimit limit;
  rlim_t wanted = descriptors_for(types, health), needed = descriptors_for(types < TYPES_BUSY ? types : TYPES_BUSY, health);
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
    return true;
  limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= needed)
    return true;
  struct error error;
  error_set(&error, "--type: %zu type%s need%s %llu open files at once, and this process may have %llu (ulimit -n)", types,
            plural((int64_t)types), types == 1 ? "s" : "", (unsigned long long)needed, (unsigned long long)limit.rlim_cur);
  log_say(CONFIG_LOG_ERROR, "start", error.text);
  return false;
}

static size_t types_at_once(const struct config *config)
{
  size_t max = (size_t)config->types_max, named = config->type_count;
  bool finds = config->pattern_count > 0;
  if (config->types_max_counts_named)
    return finds || max < named ? max : named;
  return finds ? max + named : named;
}

/* The tests shorten it. */
static int64_t interval_ms(const char *variable, int64_t ms)
{
  const char *text = getenv(variable);
  return text != NULL && atoll(text) > 0 ? atoll(text) : ms;
}

/*
 * Named types are served for good, unless --types-max was given: then it is for all, and those that have messages are found. Room for
 * what is listed, and for all patterns, is the caller's.
 */
static void types_fill(const struct config *config, const char **listed, type_name *patterns, struct type_rules *rules,
                       struct loop_options *options)
{
  bool finds_named = config->types_max_counts_named && (config->pattern_count > 0 || config->types_max < (int64_t)config->type_count);
  *rules = (struct type_rules){.patterns = patterns, .excepts = config->excepts, .except_count = config->except_count};
  for (size_t i = 0; i < config->pattern_count; i++)
    memcpy(patterns[rules->pattern_count++], config->patterns[i], sizeof *patterns);
  for (size_t i = 0; i < config->type_count; i++)
    if (finds_named)
      memcpy(patterns[rules->pattern_count++], config->types[i], sizeof *patterns);
    else
      listed[options->type_count++] = config->types[i];
  if (!finds_named) {
    rules->named = config->types;
    rules->named_count = config->type_count;
  }
  options->types = listed;
  options->rules = rules->pattern_count > 0 ? rules : NULL;
  options->found_max = rules->pattern_count > 0 ? (size_t)config->types_max : 0;
}

/* `dir`: as people may name it from anywhere. */
static void options_fill(const struct config *config, const char *dir, struct lockstore *store, struct loop_options *options)
{
  *options = (struct loop_options){
      .consumer = {.exits_when_empty = config->exit_when_empty,
                   .distrust_ms = interval_ms("PAWL_TEST_DISTRUST_MS", DISTRUST_MS),
                   .dir = dir,
                   .database = mongo_db(lockstore_mongo(store)),
                   .server = mongo_server(lockstore_mongo(store))},
      .performer = {.store = store,
                    .database = mongo_db(lockstore_mongo(store)),
                    .writer = {.dir = config->dir, .permissions = config->file_mode, .codec_zstd = config->codec == CONFIG_CODEC_ZSTD},
                    .batch_messages = config->batch_messages,
                    .batch_bytes = config->batch_bytes,
                    .range_messages_min = RANGE_MESSAGES_MIN},
      .memory_bytes = config->memory_bytes,
      .exit_when_empty = config->exit_when_empty,
      .timeout_ms = config->timeout_ms,
  };
  reload_options(config, &options->consumer);
  identity_fill(&options->performer.writer.identity, &options->performer.holder, config->name);
}

struct types_text {
  char text[120];
};

static struct types_text types_describe(const struct config *config)
{
  struct types_text described;
  int used = snprintf(described.text, sizeof described.text, "%zu type%s", config->type_count, plural((int64_t)config->type_count));
  if (config->pattern_count > 0)
    used += snprintf(described.text + used, sizeof described.text - (size_t)used, " and %zu pattern%s", config->pattern_count,
                     plural((int64_t)config->pattern_count));
  if (config->types_max > 0)
    snprintf(described.text + used, sizeof described.text - (size_t)used, ", %" PRId64 " at the same time", config->types_max);
  return described;
}

/* What is asked of a worker by SIGHUP and SIGUSR1 waits until the loop takes it; without that they would end the process. */
static void requests_hold(int how)
{
  sigset_t held;
  sigemptyset(&held);
  sigaddset(&held, SIGHUP);
  sigaddset(&held, SIGUSR1);
  sigprocmask(how, &held, NULL);
}

static int ask(const struct config *config)
{
  struct error error;
  requests_hold(SIG_UNBLOCK);
  stop_at_once(); /* a probe that is ended was not answered */
  if (health_ask(&config->listen, &error))
    return EXIT_DONE;
  log_say(CONFIG_LOG_ERROR, "health", error.text);
  return EXIT_FAILED;
}

/* Returns only if it cannot start. */
static int run(const struct config *config, int argc, char **argv)
{
  struct error error;
  struct loop_options options;
  struct message_trace trace = {.field = config->trace};
  int listener = -1;
  if (config->listen.port != 0 && (listener = health_listen(&config->listen, &error)) < 0) {
    log_say(CONFIG_LOG_ERROR, "start", error.text);
    return EXIT_USAGE;
  }
  struct lockstore_options connection = {.uri = config->uri,
                                         .db = config->db,
                                         .timeout_ms = lease_request_ms(config->lease_ms),
                                         .majority_ms = lease_majority_ms(config->lease_ms),
                                         .prepared_ms = interval_ms("PAWL_TEST_PREPARED_MS", PREPARED_MS),
                                         .connections_max = loop_connections(),
                                         .program = "pawl-worker"};
  const char **listed = calloc(config->type_count + 1, sizeof *listed);
  type_name *patterns = calloc(config->type_count + config->pattern_count, sizeof *patterns);
  struct type_rules rules;
  struct lockstore *store = lockstore_open(&connection, &error);
  if (listed == NULL || patterns == NULL || store == NULL) {
    struct error why = {.text = "no memory"};
    if (store == NULL)
      error_set(&why, "--uri or --db: %.900s", error.text);
    log_say(CONFIG_LOG_ERROR, "start", why.text);
    free(listed);
    free(patterns);
    return EXIT_USAGE;
  }
  char *dir = realpath(config->dir, NULL);
  options_fill(config, dir != NULL ? dir : config->dir, store, &options);
  types_fill(config, listed, patterns, &rules, &options);
  if (config->trace != NULL) {
    field_path_init(&trace.path, config->trace, strlen(config->trace));
    options.performer.trace = &trace;
  }
  struct lockstore_options notifications = connection;
  notifications.await_ms = AWAIT_MS;
  options.notifications = &notifications;
  options.health_listener = listener;
  options.reload = (struct reload_source){.config = config, .argc = argc, .argv = argv};
  struct error text;
  error_set(&text, "pawl-worker %s, pid %" PRId64 ", %s, database %s on %s, files in %s", PAWL_VERSION, options.performer.holder.pid,
            types_describe(config).text, options.consumer.database, options.consumer.server, config->dir);
  log_line(CONFIG_LOG_INFO, &(struct log_subject){0}, "start", text.text);
  loop_run(&options);
}

/* Nothing is held yet. */
static void on_early_stop(int number)
{
  (void)number;
  _exit(EXIT_DONE);
}

/* Until the loop handles them, in its own way. And a closed stderr must not end a worker. */
static void signals_prepare(void)
{
  struct sigaction action = {.sa_handler = on_early_stop};
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
  sigprocmask(SIG_UNBLOCK, &stop, NULL);
  signal(SIGPIPE, SIG_IGN);
  requests_hold(SIG_BLOCK);
}

/*
 * Batches and replies, megabytes each, come from one heap and stay there for the next ones: fresh pages for each cost more than all the
 * rest of the work on bundles. With glibc's own settings every thread would keep a heap like that.
 */
static void heap_settle(void)
{
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, HEAP_BYTES_KEPT / 2); /* the most that it takes */
  mallopt(M_TRIM_THRESHOLD, HEAP_BYTES_KEPT);
}

int main(int argc, char **argv)
{
  struct config config;
  int code;
  signals_prepare();
  heap_settle();
  if (!config_begin(&config, CONFIG_WORKER, argc, argv, stdout, stderr, &code))
    return code;
  log_init("pawl-worker", config.log_level, config.log_format);
  fault_init();
  if (config.health)
    code = ask(&config);
  else if (dir_usable(config.dir) && descriptors_enough(types_at_once(&config), config.listen.port != 0))
    code = run(&config, argc, argv);
  else
    code = EXIT_USAGE;
  config_free(&config);
  return code;
}
