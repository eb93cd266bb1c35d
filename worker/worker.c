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
  PREPARED_MS = 60000, /* then collections and indexes are looked at again */
  DESCRIPTORS_BASE = 64,
  DESCRIPTORS_PER_TYPE = 12,
  HEAP_BYTES_KEPT = 64 * 1024 * 1024,
  POLL_SHARE = 20,         /* of one processor, for all types together */
  RANGE_MESSAGES_MIN = 64, /* a transaction costs one more request than deleting by `_id`s does */
};

static void identity_fill(struct writer_identity *identity, struct lock_holder *holder)
{
  lock_holder_self(holder, LOCK_BY_WORKER, "pawl-worker " PAWL_VERSION);
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

/* A type needs its connections, its file and a directory now and then; without them MongoDB would seem to be away. */
static bool descriptors_enough(size_t types, bool health)
{
  struct rlimit limit;
  rlim_t needed = DESCRIPTORS_BASE + types * DESCRIPTORS_PER_TYPE + (health ? HEALTH_DESCRIPTORS : 0);
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
    return true;
  limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= needed)
    return true;
  struct error error;
  error_set(&error, "--type: %zu type%s need%s %llu open files at once, and this process may have %llu (ulimit -n)", types,
            plural((int64_t)types), types == 1 ? "s" : "", (unsigned long long)needed, (unsigned long long)limit.rlim_cur);
  log_say(CONFIG_LOG_ERROR, "start", error.text);
  return false;
}

/* The tests shorten it. */
static int64_t interval_ms(const char *variable, int64_t ms)
{
  const char *text = getenv(variable);
  return text != NULL && atoll(text) > 0 ? atoll(text) : ms;
}

/* `dir`: as people may name it from anywhere. */
static void options_fill(const struct config *config, const char *dir, const char **types, struct lockstore *store,
                         struct loop_options *options)
{
  for (size_t i = 0; i < config->type_count; i++)
    types[i] = config->types[i];
  *options = (struct loop_options){
      .types = types,
      .type_count = config->type_count,
      .consumer = {.lease_ms = config->lease_ms,
                   .retry_ms = config->retry_ms,
                   .poll_ms = config->poll_ms,
                   .linger_ms = config->linger_ms,
                   .stall_ms = config->stall_ms,
                   .segment_bytes = config->segment_bytes,
                   .poll_share = POLL_SHARE * (int64_t)config->type_count,
                   .distrust_ms = interval_ms("PAWL_TEST_DISTRUST_MS", DISTRUST_MS),
                   .dir = dir,
                   .database = mongo_db(lockstore_mongo(store)),
                   .server = mongo_server(lockstore_mongo(store))},
      .performer = {.store = store,
                    .database = mongo_db(lockstore_mongo(store)),
                    .writer = {.dir = config->dir,
                               .permissions = config->file_mode,
                               .codec_zstd = config->codec == CONFIG_CODEC_ZSTD,
                               .lease_ms = config->lease_ms},
                    .lease_ms = config->lease_ms,
                    .batch_messages = config->batch_messages,
                    .batch_bytes = config->batch_bytes,
                    .range_messages_min = RANGE_MESSAGES_MIN},
      .exit_when_empty = config->exit_when_empty,
      .timeout_ms = config->timeout_ms,
  };
  identity_fill(&options->performer.writer.identity, &options->performer.holder);
}

static int ask(const struct config *config)
{
  struct error error;
  stop_at_once(); /* a probe that is ended was not answered */
  if (health_ask(&config->listen, &error))
    return EXIT_DONE;
  log_say(CONFIG_LOG_ERROR, "health", error.text);
  return EXIT_FAILED;
}

/* Returns only if it cannot start. */
static int run(const struct config *config)
{
  struct error error;
  struct loop_options options;
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
                                         .connections_max = loop_connections(config->type_count),
                                         .program = "pawl-worker"};
  const char **types = calloc(config->type_count, sizeof *types);
  struct lockstore *store = lockstore_open(&connection, &error);
  if (types == NULL || store == NULL) {
    struct error why = {.text = "no memory"};
    if (store == NULL)
      error_set(&why, "--uri or --db: %.900s", error.text);
    log_say(CONFIG_LOG_ERROR, "start", why.text);
    free(types);
    return EXIT_USAGE;
  }
  char *dir = realpath(config->dir, NULL);
  options_fill(config, dir != NULL ? dir : config->dir, types, store, &options);
  struct lockstore_options notifications = connection;
  notifications.await_ms = AWAIT_MS;
  options.notifications = &notifications;
  options.health_listener = listener;
  struct error text;
  error_set(&text, "pawl-worker %s, pid %" PRId64 ", %zu type%s, database %s on %s, files in %s", PAWL_VERSION,
            options.performer.holder.pid, config->type_count, plural((int64_t)config->type_count), options.consumer.database,
            options.consumer.server, config->dir);
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
  else if (dir_usable(config.dir) && descriptors_enough(config.type_count, config.listen.port != 0))
    code = run(&config);
  else
    code = EXIT_USAGE;
  config_free(&config);
  return code;
}
