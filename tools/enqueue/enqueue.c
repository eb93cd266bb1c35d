/*
 * pawl-enqueue: inserts messages into the queue, from files or standard input.
 *
 * It reads a batch, reserves its _ids, inserts it, and only then reads on: what was acknowledged is always a prefix of the input, without
 * the bad lines, which are reported one by one. The first batch with an unknown result ends the program, and the program prints the place
 * from which to continue.
 *
 * With --bundle each message goes unchanged into a bundle, and the documents of the batch are bundles.
 *
 * Waiting messages are sent when the input has nothing more at the moment, so that a batch, or an auto bundle, holds what came while the
 * one before was on its way. They are also sent when they have waited for long enough, even if the input never pauses.
 */
#include "config/config.h"
#include "config/stop.h"
#include "tools/enqueue/id.h"
#include "tools/enqueue/input.h"
#include "tools/enqueue/insert.h"
#include "tools/enqueue/progress.h"
#include "tools/enqueue/stop.h"
#include "tools/patience.h"
#include "worker/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
  BATCH_BYTES = 8 * 1024 * 1024, /* of one insert; or of one message */
  TIMEOUT_MS = 15000,            /* of one request: longer than an election */
  PLACE_SIZE = 500,
  COUNT_SIZE = 80,
  AUTO_MESSAGES_MAX = 1000, /* in a bundle of --bundle auto */
  AUTO_LINGER_MS = 3,       /* how long its first message waits for others when none come */
  FIXED_LINGER_MS = 100,    /* the same for --bundle N, while others keep coming */
  BUSY_MS = 60000,          /* how long to retry a document that the server cannot take at the moment */
  BUSY_PAUSE_MS = 100,
  BUSY_PAUSE_MS_MAX = 3000,
  DOCUMENTS_MAX = 100000, /* in one insert: MongoDB's own limit */
};

struct enqueue {
  struct config config;
  struct mongo *mongo;
  mongoc_client_t *client;
  struct id_source ids;
  struct batch batch;
  struct progress progress;
  sigset_t unblocked; /* mask for the wait for input; a signal ends this wait */
  enum input_form form;
  size_t bundle_max;                  /* messages; 0: no bundles */
  int64_t acknowledged, bad, unknown; /* messages */
  int64_t documents;                  /* documents that hold the acknowledged messages */
  int64_t began_ms;                   /* when the current batch got its first message */
  int64_t busy_since_ms;              /* since when the server cannot take the next document; 0: it can */
  int64_t bytes;                      /* of the files that are finished */
  struct insert_woken woken;
  bool stopped; /* stop reading and inserting */
  bool failed;  /* an error other than bad and unknown messages */
  int code;     /* why nothing can be inserted any more; 0: inserts are possible */
};

/* ---- logging ---- */

__attribute__((format(printf, 4, 5))) static void say(struct enqueue *enqueue, enum config_log_level level, const char *event,
                                                      const char *format, ...)
{
  char text[2048];
  if (level > enqueue->config.log_level)
    return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!log_keeps())
    progress_clear(&enqueue->progress);
  log_say(level, event, text);
}

static void say_bad(struct enqueue *enqueue, size_t messages, const char *text)
{
  enqueue->bad += (int64_t)messages;
  say(enqueue, CONFIG_LOG_ERROR, "bad", "%s", text);
  if (enqueue->config.strict)
    enqueue->stopped = true;
}

static void place_text(const struct enqueue *enqueue, struct place place, char *text)
{
  input_place(place.name, enqueue->form, place.number, place.offset, text, PLACE_SIZE);
}

/* "7 messages", "7 messages in 2 documents". */
static void count_text(const struct enqueue *enqueue, int64_t messages, int64_t documents, char text[COUNT_SIZE])
{
  int length = snprintf(text, COUNT_SIZE, "%lld message%s", (long long)messages, plural(messages));
  if (enqueue->bundle_max > 0)
    snprintf(text + length, COUNT_SIZE - (size_t)length, " in %lld document%s", (long long)documents, plural(documents));
}

/* The _id as people write it; the caller frees it. */
static char *id_text(const struct enqueue *enqueue, size_t i)
{
  bson_t document, only = BSON_INITIALIZER;
  bson_iter_t iter;
  batch_document(&enqueue->batch, i, &document);
  if (bson_iter_init_find(&iter, &document, "_id"))
    bson_append_iter(&only, "_id", 3, &iter);
  char *text = bson_as_relaxed_extended_json(&only, NULL);
  bson_destroy(&only);
  return text;
}

static void say_unknown(struct enqueue *enqueue, size_t first, size_t count, const char *why)
{
  char from[PLACE_SIZE], to[PLACE_SIZE], counted[COUNT_SIZE];
  char *first_id = id_text(enqueue, first), *last_id = id_text(enqueue, first + count - 1);
  place_text(enqueue, enqueue->batch.documents[first].first, from);
  place_text(enqueue, enqueue->batch.documents[first + count - 1].last, to);
  size_t messages = batch_messages(&enqueue->batch, first, count);
  count_text(enqueue, (int64_t)messages, (int64_t)count, counted);
  say(enqueue, CONFIG_LOG_ERROR, "unknown", "it is not known whether %s %s in the queue: %s to %s, %s to %s: %s", counted,
      messages == 1 ? "is" : "are", from, to, first_id ? first_id : "?", last_id ? last_id : "?", why);
  bson_free(first_id);
  bson_free(last_id);
}

/* What follows the batch was not even read. */
static void say_not_tried(struct enqueue *enqueue, size_t first)
{
  char place[PLACE_SIZE];
  const struct batch *batch = &enqueue->batch;
  bool last = first >= batch->count;
  place_text(enqueue, last ? batch->documents[batch->count - 1].last : batch->documents[first].first, place);
  say(enqueue, CONFIG_LOG_ERROR, "not-tried", last ? "not tried: all behind %s" : "not tried: %s and all behind it", place);
}

static void say_summary(struct enqueue *enqueue, bool failed)
{
  char bad[64] = "", unknown[64] = "", counted[COUNT_SIZE];
  const char *what = enqueue->form == INPUT_BSON ? "document" : "line";
  if (enqueue->bad)
    snprintf(bad, sizeof bad, ", %lld bad %s%s", (long long)enqueue->bad, what, plural(enqueue->bad));
  if (enqueue->unknown)
    snprintf(unknown, sizeof unknown, ", %lld unknown", (long long)enqueue->unknown);
  count_text(enqueue, enqueue->acknowledged, enqueue->documents, counted);
  say(enqueue, failed ? CONFIG_LOG_ERROR : CONFIG_LOG_INFO, "done", "enqueued %s%s%s", counted, bad, unknown);
}

/* ---- texts prepared for later ---- */

/* Prepares the texts for a late answer to the insert of all from `first` on, and for a second signal before the answer. */
static void draft_insert(struct enqueue *enqueue, size_t first)
{
  char words[STOP_WORDS_SIZE], counted[COUNT_SIZE];
  const struct batch *batch = &enqueue->batch;
  size_t count = batch->count - first;
  int64_t messages = (int64_t)batch_messages(batch, first, count);
  log_keep(words, sizeof words);
  say_unknown(enqueue, first, count, "a second signal came before the answer");
  say_not_tried(enqueue, batch->count);
  enqueue->unknown += messages;
  say_summary(enqueue, true);
  enqueue->unknown -= messages;
  log_keep(NULL, 0);
  stop_words(words);
  count_text(enqueue, messages, (int64_t)count, counted);
  log_keep(words, sizeof words);
  say(enqueue, CONFIG_LOG_INFO, "waiting", "waiting for %s to acknowledge %s", mongo_server(enqueue->mongo), counted);
  log_keep(NULL, 0);
  patience_begin(words);
}

/* Prepares the text for the time when no request is under way. */
static void draft_idle(struct enqueue *enqueue)
{
  char words[STOP_WORDS_SIZE];
  patience_end();
  log_keep(words, sizeof words);
  say_summary(enqueue, true);
  log_keep(NULL, 0);
  stop_words(words);
}

/* Prepares the text for the time until MongoDB has answered. */
static void draft_connect(struct enqueue *enqueue)
{
  char words[STOP_WORDS_SIZE];
  log_keep(words, sizeof words);
  say(enqueue, CONFIG_LOG_ERROR, "stopped", "stopped by a signal before MongoDB answered; nothing was enqueued");
  log_keep(NULL, 0);
  if (!stop_catch(words, &enqueue->unblocked))
    say(enqueue, CONFIG_LOG_WARN, "start", "no thread for signals: a signal is noticed when MongoDB has answered");
}

/* ---- inserting ---- */

static int64_t clock_us(clockid_t clock)
{
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void ids_fill(struct enqueue *enqueue)
{
  struct batch *batch = &enqueue->batch;
  struct error error;
  size_t wanted = 0;
  int64_t tick;
  for (size_t i = 0; i < batch->count; i++)
    wanted += batch->documents[i].id_wanted;
  if (!id_source_reserve(&enqueue->ids, clock_us(CLOCK_REALTIME), wanted, &tick, &error))
    say(enqueue, CONFIG_LOG_WARN, "ids", "%s; that _ids rise from one call to the next is now up to the clock", error.text);
  for (size_t i = 0; i < batch->count; i++)
    if (batch->documents[i].id_wanted)
      id_make(&enqueue->ids, tick++, batch->bytes + batch->documents[i].at + ID_OFFSET);
}

/* Reports that the server refused this document. */
static void say_refused(struct enqueue *enqueue, size_t i, const char *why)
{
  const struct batch_document *document = &enqueue->batch.documents[i];
  char first[PLACE_SIZE], last[PLACE_SIZE], text[2 * PLACE_SIZE + sizeof(struct error) + 30];
  place_text(enqueue, document->first, first);
  place_text(enqueue, document->last, last);
  bool one = document->messages == 1;
  snprintf(text, sizeof text, "%s%s%s: MongoDB says: %s", first, one ? "" : " to ", one ? "" : last, why);
  say_bad(enqueue, document->messages, text);
}

/* False: the time for retries is over, or a signal came. */
static bool busy_pause(struct enqueue *enqueue, size_t i, const char *why)
{
  char place[PLACE_SIZE];
  int64_t now_ms = clock_us(CLOCK_MONOTONIC) / 1000;
  if (enqueue->busy_since_ms == 0) {
    enqueue->busy_since_ms = now_ms;
    place_text(enqueue, enqueue->batch.documents[i].first, place);
    say(enqueue, CONFIG_LOG_WARN, "busy", "%s: MongoDB cannot take it at the moment: %s; trying again", place, why);
  }
  int64_t waited_ms = now_ms - enqueue->busy_since_ms, pause_ms = waited_ms / 2;
  pause_ms = pause_ms < BUSY_PAUSE_MS ? BUSY_PAUSE_MS : pause_ms > BUSY_PAUSE_MS_MAX ? BUSY_PAUSE_MS_MAX : pause_ms;
  if (stop_asked() || waited_ms > BUSY_MS)
    return false;
  (void)ppoll(NULL, 0, &(struct timespec){.tv_sec = pause_ms / 1000, .tv_nsec = pause_ms % 1000 * 1000000}, &enqueue->unblocked);
  return !stop_asked();
}

/* Replaces a client that has lost its login. */
static void client_renew(struct enqueue *enqueue)
{
  struct error ignored;
  if (!mongo_client_is_left(enqueue->mongo, enqueue->client))
    return;
  mongoc_client_t *fresh = mongo_client_take(enqueue->mongo, "inserting", &ignored);
  if (!fresh)
    return;
  mongo_client_give(enqueue->mongo, enqueue->client);
  enqueue->client = fresh;
}

/* Inserts from `first` on, until the first error; returns where to continue. */
static size_t insert_some(struct enqueue *enqueue, size_t first)
{
  struct error error;
  client_renew(enqueue);
  draft_insert(enqueue, first);
  struct insert_outcome outcome = insert_batch(enqueue->mongo, enqueue->client, &enqueue->batch, first, &error);
  size_t reached = first + outcome.acknowledged;
  if (outcome.acknowledged > 0)
    insert_wake(enqueue->mongo, enqueue->client, &enqueue->batch, first, outcome.acknowledged, clock_us(CLOCK_MONOTONIC) / 1000,
                &enqueue->woken);
  enqueue->acknowledged += (int64_t)batch_messages(&enqueue->batch, first, outcome.acknowledged);
  enqueue->documents += (int64_t)outcome.acknowledged;
  draft_idle(enqueue);
  if (outcome.answer != INSERT_BUSY || outcome.acknowledged > 0)
    enqueue->busy_since_ms = 0;
  switch (outcome.answer) {
  case INSERT_DONE:
    return reached;
  case INSERT_BAD:
    say_refused(enqueue, reached, error.text);
    return reached + 1;
  case INSERT_UNKNOWN:
    say_unknown(enqueue, first, outcome.unknown, error.text);
    say_not_tried(enqueue, first + outcome.unknown);
    enqueue->unknown += (int64_t)batch_messages(&enqueue->batch, first, outcome.unknown);
    enqueue->stopped = true;
    return first + outcome.unknown;
  case INSERT_BUSY:
    if (busy_pause(enqueue, reached, error.text))
      return reached;
    outcome.unreachable = true;
    __attribute__((fallthrough));
  case INSERT_NONE:
    say(enqueue, CONFIG_LOG_ERROR, "insert", "cannot insert: %s", error.text);
    say_not_tried(enqueue, reached);
    enqueue->failed = enqueue->stopped = true;
    enqueue->code = outcome.unreachable ? EXIT_UNAVAILABLE : mongo_exit_code(OUTCOME_UNKNOWN, &error);
    return reached;
  }
  return reached;
}

/* Also inserts what was read before a line at which --strict stops. */
static void flush(struct enqueue *enqueue)
{
  if (enqueue->batch.count == 0)
    return;
  ids_fill(enqueue);
  size_t done = 0;
  do
    done = insert_some(enqueue, done);
  while (done < enqueue->batch.count && !enqueue->stopped);
  batch_clear(&enqueue->batch);
}

/* ---- reading ---- */

static void add_plain(struct enqueue *enqueue, const bson_t *message, bool id_wanted, struct place from)
{
  struct batch *batch = &enqueue->batch;
  if (batch->count > 0 && batch->length + message->len > BATCH_BYTES)
    flush(enqueue);
  if (!enqueue->stopped)
    batch_add(batch, message, id_wanted, from);
  if (batch->count == batch->count_max)
    flush(enqueue);
}

static void add_bundled(struct enqueue *enqueue, const char *type, const bson_t *message, struct place from)
{
  struct batch *batch = &enqueue->batch;
  bool full = batch->count == batch->count_max && !batch_bundle_takes(batch, type, message->len, enqueue->bundle_max);
  if (full || (batch->count > 0 && batch->length + message->len + BUNDLE_AROUND > BATCH_BYTES))
    flush(enqueue);
  if (!enqueue->stopped)
    batch_bundle(batch, type, message, from, enqueue->bundle_max);
}

static void take_message(struct enqueue *enqueue, const struct input *input, bson_t *message, bool id_wanted, int64_t offset)
{
  struct place from = {input->name, input->number, offset};
  if (enqueue->bundle_max > 0)
    add_bundled(enqueue, input->type, message, from);
  else
    add_plain(enqueue, message, id_wanted, from);
  bson_destroy(message);
  int64_t now_ms = clock_us(CLOCK_MONOTONIC) / 1000;
  if (enqueue->batch.count == 1 && enqueue->batch.documents[0].messages == 1)
    enqueue->began_ms = now_ms;
  progress_update(&enqueue->progress, enqueue->bytes + input->bytes_read, enqueue->acknowledged, enqueue->documents, now_ms);
}

static int64_t linger_ms(const struct enqueue *enqueue)
{
  if (enqueue->bundle_max == 0)
    return 0;
  return enqueue->config.bundle == CONFIG_BUNDLE_AUTO ? AUTO_LINGER_MS : FIXED_LINGER_MS;
}

/* False: this input is finished. */
static bool take_next(struct enqueue *enqueue, struct input *input)
{
  bson_t message;
  bool id_wanted = false;
  struct error error;
  int64_t offset = input->offset;
  input->idle_at_ms = enqueue->batch.count > 0 ? enqueue->began_ms + linger_ms(enqueue) : 0;
  switch (input_next(input, &message, &id_wanted, &error)) {
  case INPUT_MESSAGE:
    take_message(enqueue, input, &message, id_wanted, offset);
    return true;
  case INPUT_BAD:
    if (enqueue->config.strict)
      flush(enqueue);
    if (!enqueue->stopped)
      say_bad(enqueue, 1, error.text);
    return true;
  case INPUT_IDLE:
    flush(enqueue);
    return true;
  case INPUT_BROKEN:
    enqueue->failed = true;
    say_bad(enqueue, 1, error.text);
    return false;
  case INPUT_END:
    return false;
  }
  return false;
}

/* Opens a FIFO without a wait for its writer. The program waits where it reads, because there a signal ends the wait. */
static int file_open(const char *path)
{
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file >= 0 && fcntl(file, F_SETFL, O_RDONLY) < 0)
    return -1;
  return file;
}

static void take_file(struct enqueue *enqueue, const char *path)
{
  struct input input;
  bool standard = strcmp(path, "-") == 0;
  int file = standard ? STDIN_FILENO : file_open(path);
  if (file < 0) {
    say(enqueue, CONFIG_LOG_ERROR, "input", "cannot open %.400s: %s", path, strerror(errno));
    enqueue->failed = true;
    enqueue->stopped |= enqueue->config.strict;
    return;
  }
  struct input_types types = {enqueue->config.types, enqueue->config.type_count};
  input_init(&input, file, standard ? "standard input" : path, enqueue->form, types);
  input.bare = enqueue->bundle_max > 0;
  input.unblocked = &enqueue->unblocked;
  while (!enqueue->stopped && !stop_asked() && take_next(enqueue, &input))
    ;
  if (stop_asked() && !enqueue->stopped) {
    flush(enqueue);
    say(enqueue, CONFIG_LOG_ERROR, "stopped", "stopped by a signal behind %s%s%lld", input.name,
        enqueue->form == INPUT_BSON ? ": document " : ":", (long long)input.number);
  }
  enqueue->bytes += input.bytes_read;
  input_deinit(&input);
  if (!standard)
    close(file);
}

/* Returns 0 if it is not known. */
static int64_t total_bytes(char **paths, int count)
{
  int64_t total = 0;
  for (int i = 0; i < count; i++) {
    struct stat status;
    int failed = strcmp(paths[i], "-") == 0 ? fstat(STDIN_FILENO, &status) : stat(paths[i], &status);
    if (failed || !S_ISREG(status.st_mode))
      return 0;
    total += status.st_size;
  }
  return total;
}

static void take_all(struct enqueue *enqueue)
{
  static char *standard[] = {"-", NULL};
  bool given = enqueue->config.argument_count > 0;
  char **paths = given ? enqueue->config.arguments : standard;
  int count = given ? enqueue->config.argument_count : 1;
  bool quiet = enqueue->config.log_level == CONFIG_LOG_ERROR;
  progress_init(&enqueue->progress, quiet ? NULL : stderr, total_bytes(paths, count), clock_us(CLOCK_MONOTONIC) / 1000);
  for (int i = 0; i < count && !enqueue->stopped && !stop_asked(); i++)
    take_file(enqueue, paths[i]);
  if (!enqueue->stopped)
    flush(enqueue);
  progress_clear(&enqueue->progress);
}

/* ---- begin and end ---- */

static bool wanted_type(const struct config *config)
{
  if (config->from != CONFIG_FROM_LINES || config->type_count == 1)
    return true;
  struct error error;
  error_set(&error, "--type: got %zu types: takes exactly one with --from lines, e.g. --type t1", config->type_count);
  log_say(CONFIG_LOG_ERROR, "usage", error.text);
  log_say(CONFIG_LOG_ERROR, "usage", "see pawl-enqueue --help");
  return false;
}

static enum input_form form_of(enum config_from from)
{
  switch (from) {
  case CONFIG_FROM_LINES:
    return INPUT_LINES;
  case CONFIG_FROM_NDJSON:
    return INPUT_NDJSON;
  case CONFIG_FROM_BSON:
    return INPUT_BSON;
  }
  return INPUT_LINES;
}

static enum outcome hello(struct enqueue *enqueue, struct error *error)
{
  char words[PATIENCE_LINE_SIZE];
  log_keep(words, sizeof words);
  say(enqueue, CONFIG_LOG_INFO, "waiting", "waiting for %s to answer", mongo_server(enqueue->mongo));
  log_keep(NULL, 0);
  patience_begin(words);
  enum outcome outcome = mongo_hello(enqueue->mongo, error);
  if (outcome == OUTCOME_YES) {
    mongo_make_queue(enqueue->mongo);
    mongo_survey_wakeups(enqueue->mongo);
  }
  patience_end();
  return outcome;
}

static int connect_mongo(struct enqueue *enqueue)
{
  struct error error;
  const struct lockstore_options options = {.uri = enqueue->config.uri,
                                            .db = enqueue->config.db,
                                            .timeout_ms = TIMEOUT_MS,
                                            .connections_max = 2,
                                            .program = "pawl-enqueue",
                                            .retry_writes = true};
  enqueue->mongo = mongo_open(&options, &error);
  if (!enqueue->mongo) {
    say(enqueue, CONFIG_LOG_ERROR, "start", "--uri: %s", error.text);
    return EXIT_USAGE;
  }
  enum outcome outcome = hello(enqueue, &error);
  if (outcome == OUTCOME_YES) {
    enqueue->client = mongo_client_take(enqueue->mongo, "inserting", &error);
    if (enqueue->client)
      return EXIT_DONE;
  }
  bool refused = outcome == OUTCOME_REFUSED || error.reason != ERROR_OTHER; /* then the text needs no prefix */
  say(enqueue, CONFIG_LOG_ERROR, "unavailable", "%s%s; nothing was enqueued", refused ? "" : "cannot reach MongoDB: ", error.text);
  return mongo_exit_code(outcome, &error);
}

static int summary(struct enqueue *enqueue)
{
  bool failed = enqueue->failed || enqueue->bad || enqueue->unknown || stop_asked();
  say_summary(enqueue, failed);
  if (enqueue->code != EXIT_DONE && enqueue->acknowledged == 0 && enqueue->unknown == 0)
    return enqueue->code;
  return failed ? EXIT_FAILED : EXIT_DONE;
}

static int run(struct enqueue *enqueue)
{
  struct error error;
  int64_t wanted = enqueue->config.batch_messages;
  draft_connect(enqueue);
  int code = connect_mongo(enqueue);
  if (code == EXIT_DONE) {
    say(enqueue, CONFIG_LOG_DEBUG, "start", "inserts into database %s on %s", mongo_db(enqueue->mongo), mongo_server(enqueue->mongo));
    draft_idle(enqueue);
    stop_wait();
    if (!id_source_open(&enqueue->ids, &error))
      say(enqueue, CONFIG_LOG_WARN, "ids", "%s; that _ids rise from one call to the next is up to the clock", error.text);
    batch_init(&enqueue->batch, (size_t)(wanted < DOCUMENTS_MAX ? wanted : DOCUMENTS_MAX));
    take_all(enqueue);
    code = summary(enqueue);
    batch_deinit(&enqueue->batch);
    id_source_close(&enqueue->ids);
  }
  return code;
}

int main(int argc, char **argv)
{
  struct enqueue enqueue = {.failed = false};
  int code;
  stop_at_once();
  if (!config_begin(&enqueue.config, CONFIG_ENQUEUE, argc, argv, stdout, stderr, &code))
    return code;
  log_init("pawl-enqueue", enqueue.config.log_level, enqueue.config.log_format);
  enqueue.form = form_of(enqueue.config.from);
  enqueue.bundle_max = enqueue.config.bundle == CONFIG_BUNDLE_AUTO ? AUTO_MESSAGES_MAX : (size_t)enqueue.config.bundle;
  code = EXIT_USAGE;
  signal(SIGPIPE, SIG_IGN);
  if (wanted_type(&enqueue.config))
    code = run(&enqueue);
  stop_now(code);
}
