/*
 * pawl-enqueue: inserts messages into the queue, from files or standard input.
 *
 * It reads a batch, reserves its _ids, inserts it, and only then reads on: what was acknowledged is always a prefix of the input, without
 * the bad lines, which are reported one by one. The first batch with an unknown result ends it, and it prints from where to continue.
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
#include "tools/enqueue/report.h"
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
  AUTO_MESSAGES_MAX = 1000,      /* in a bundle of --bundle auto */
  AUTO_LINGER_MS = 3,            /* how long its first message waits for others when none come */
  FIXED_LINGER_MS = 100,         /* the same for --bundle N, while others keep coming */
  BUSY_MS = 60000,               /* how long to retry a document that the server cannot take at the moment */
  BUSY_PAUSE_MS = 100,
  BUSY_PAUSE_MS_MAX = 3000,
  DOCUMENTS_MAX = 100000, /* in one insert: MongoDB's own limit */
};

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
    report(enqueue, CONFIG_LOG_WARN, "ids", "%s; that _ids rise from one call to the next is now up to the clock", error.text);
  for (size_t i = 0; i < batch->count; i++)
    if (batch->documents[i].id_wanted)
      id_make(&enqueue->ids, tick++, batch->bytes + batch->documents[i].at + ID_OFFSET);
}

/* Reports that the server refused this document. */
static void say_refused(struct enqueue *enqueue, size_t i, const char *why)
{
  const struct batch_document *document = &enqueue->batch.documents[i];
  char first[PLACE_SIZE], last[PLACE_SIZE], text[2 * PLACE_SIZE + sizeof(struct error) + 30];
  report_place(enqueue, document->first, first);
  report_place(enqueue, document->last, last);
  bool one = document->messages == 1;
  snprintf(text, sizeof text, "%s%s%s: MongoDB says: %s", first, one ? "" : " to ", one ? "" : last, why);
  report_bad(enqueue, document->messages, text);
}

/* False: the time for retries is over, or a signal came. */
static bool busy_pause(struct enqueue *enqueue, size_t i, const char *why)
{
  char place[PLACE_SIZE];
  int64_t now_ms = clock_us(CLOCK_MONOTONIC) / 1000;
  if (enqueue->busy_since_ms == 0) {
    enqueue->busy_since_ms = now_ms;
    report_place(enqueue, enqueue->batch.documents[i].first, place);
    report(enqueue, CONFIG_LOG_WARN, "busy", "%s: MongoDB cannot take it at the moment: %s; trying again", place, why);
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

/* ---- where to ---- */

static void say_denied(struct enqueue *enqueue, bool before)
{
  if (enqueue->destinations.denied && !before)
    report(enqueue, CONFIG_LOG_INFO, "shared",
           "this user may not read the ledgers, so that a type with its own collection is not known: all goes into messages");
}

/* Nothing of the batch from `first` on is inserted. */
static void give_up(struct enqueue *enqueue, size_t first, int code, const char *text)
{
  report(enqueue, CONFIG_LOG_ERROR, "insert", "cannot insert: %s", text);
  report_not_tried(enqueue, first);
  enqueue->failed = enqueue->stopped = true;
  enqueue->code = code;
}

/* Finds out into which collections the batch goes. `now`: as the ledgers are at this moment. False: that is not known. */
static bool assign(struct enqueue *enqueue, size_t first, bool now)
{
  struct error error;
  bool known, denied = enqueue->destinations.denied;
  for (;;) {
    int64_t now_ms = clock_us(CLOCK_MONOTONIC) / 1000;
    enum outcome outcome = destinations_assign(&enqueue->destinations, enqueue->mongo, &enqueue->batch, first, now, now_ms, &known, &error);
    say_denied(enqueue, denied);
    if (outcome == OUTCOME_YES || (outcome == OUTCOME_UNKNOWN && known && !now)) {
      enqueue->busy_since_ms = 0;
      return true;
    }
    if (outcome == OUTCOME_REFUSED || !busy_pause(enqueue, first, error.text)) {
      give_up(enqueue, first, mongo_exit_code(outcome, &error), error.text);
      return false;
    }
  }
}

/* Into a collection of its own. */
static enum insert_answer judge_own(struct enqueue *enqueue, size_t i, enum insert_answer answer, struct error *error)
{
  struct error why = *error;
  const char *type = destination_type(&enqueue->batch, i);
  enum outcome own = destination_is_own(enqueue->mongo, type, error);
  if (own == OUTCOME_YES && answer == INSERT_INVALID)
    return INSERT_BAD;
  if (own == OUTCOME_YES)
    error_set(error, "its own collection is closed at the moment; pawl-setup --type %s --own-collection opens it", type);
  if (own != OUTCOME_NO)
    return INSERT_BUSY;
  error_set(error, "the type %s has no own collection any more, and order is promised only to a producer that begins again: %.500s", type,
            why.text);
  give_up(enqueue, i, EXIT_USAGE, error->text);
  return INSERT_DONE;
}

/*
 * A validator refuses the document. It may also be how a collection is closed whose messages go elsewhere now, or will again in a moment.
 * INSERT_BAD: it is the document. INSERT_BUSY: later. INSERT_DONE: in another collection, or the program stops.
 */
static enum insert_answer judge_invalid(struct enqueue *enqueue, size_t i, enum insert_answer answer, const struct queue_name *queue,
                                        struct error *error)
{
  struct error why = *error;
  const struct batch_document *document = &enqueue->batch.documents[i];
  if (document->own)
    answer = judge_own(enqueue, i, answer, error);
  else
    answer = assign(enqueue, i, true) && !document->own ? INSERT_BAD : INSERT_DONE;
  if (answer == INSERT_BAD)
    error_set(error, "%.700s (a validator of %s refuses it%s)", why.text, queue->text,
              enqueue->destinations.denied ? "; perhaps its type has its own collection, which this user may not see" : "");
  return answer;
}

/* Inserts from `first` on, as far as the same collection goes, until the first error; returns where to continue. */
static size_t insert_some(struct enqueue *enqueue, size_t first)
{
  struct error error;
  size_t count;
  const struct queue_name queue = destinations_run(&enqueue->batch, first, &count);
  client_renew(enqueue);
  report_draft_insert(enqueue, first, count);
  struct insert_outcome outcome = insert_batch(enqueue->mongo, enqueue->client, queue.text, &enqueue->batch, first, count, &error);
  size_t reached = first + outcome.acknowledged;
  if (outcome.acknowledged > 0)
    insert_wake(enqueue->mongo, enqueue->client, &enqueue->batch, first, outcome.acknowledged, clock_us(CLOCK_MONOTONIC) / 1000,
                &enqueue->woken);
  enqueue->acknowledged += (int64_t)batch_messages(&enqueue->batch, first, outcome.acknowledged);
  enqueue->documents += (int64_t)outcome.acknowledged;
  report_draft_idle(enqueue);
  enum insert_answer answer = outcome.answer;
  if (answer == INSERT_INVALID || answer == INSERT_CLOSED)
    answer = judge_invalid(enqueue, reached, answer, &queue, &error);
  if (answer != INSERT_BUSY || outcome.acknowledged > 0)
    enqueue->busy_since_ms = 0;
  switch (answer) {
  case INSERT_DONE:
    return reached;
  case INSERT_INVALID:
  case INSERT_CLOSED:
  case INSERT_BAD:
    say_refused(enqueue, reached, error.text);
    return reached + 1;
  case INSERT_UNKNOWN:
    report_unknown(enqueue, first, outcome.unknown, error.text);
    report_not_tried(enqueue, first + outcome.unknown);
    enqueue->unknown += (int64_t)batch_messages(&enqueue->batch, first, outcome.unknown);
    enqueue->stopped = true;
    return first + outcome.unknown;
  case INSERT_BUSY:
    if (busy_pause(enqueue, reached, error.text))
      return reached;
    outcome.unreachable = true;
    __attribute__((fallthrough));
  case INSERT_NONE:
    give_up(enqueue, reached, outcome.unreachable ? EXIT_UNAVAILABLE : mongo_exit_code(OUTCOME_UNKNOWN, &error), error.text);
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
  if (assign(enqueue, 0, false))
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
      report_bad(enqueue, 1, error.text);
    return true;
  case INPUT_IDLE:
    flush(enqueue);
    return true;
  case INPUT_BROKEN:
    enqueue->failed = true;
    report_bad(enqueue, 1, error.text);
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
    report(enqueue, CONFIG_LOG_ERROR, "input", "cannot open %.400s: %s", path, strerror(errno));
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
  if (stop_asked() && !enqueue->stopped)
    flush(enqueue); /* which may say from where on nothing was tried */
  if (stop_asked() && !enqueue->stopped)
    report(enqueue, CONFIG_LOG_ERROR, "stopped", "stopped by a signal after %s%s%lld", input.name,
           enqueue->form == INPUT_BSON ? ": document " : ":", (long long)input.number);
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
  report(enqueue, CONFIG_LOG_INFO, "waiting", "waiting for %s to answer", mongo_server(enqueue->mongo));
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
    report(enqueue, CONFIG_LOG_ERROR, "start", "--uri: %s", error.text);
    return EXIT_USAGE;
  }
  enum outcome outcome = hello(enqueue, &error);
  if (outcome == OUTCOME_YES) {
    enqueue->client = mongo_client_take(enqueue->mongo, "inserting", &error);
    if (enqueue->client)
      return EXIT_DONE;
  }
  bool refused = outcome == OUTCOME_REFUSED || error.reason != ERROR_OTHER; /* then the text needs no prefix */
  report(enqueue, CONFIG_LOG_ERROR, "unavailable", "%s%s; nothing was enqueued", refused ? "" : "cannot reach MongoDB: ", error.text);
  return mongo_exit_code(outcome, &error);
}

static int summary(struct enqueue *enqueue)
{
  bool failed = enqueue->failed || enqueue->bad || enqueue->unknown || stop_asked();
  report_summary(enqueue, failed);
  if (enqueue->code != EXIT_DONE && enqueue->acknowledged == 0 && enqueue->unknown == 0)
    return enqueue->code;
  return failed ? EXIT_FAILED : EXIT_DONE;
}

static int run(struct enqueue *enqueue)
{
  struct error error;
  int64_t wanted = enqueue->config.batch_messages;
  report_draft_connect(enqueue);
  int code = connect_mongo(enqueue);
  if (code == EXIT_DONE) {
    report(enqueue, CONFIG_LOG_DEBUG, "start", "inserts into database %s on %s", mongo_db(enqueue->mongo), mongo_server(enqueue->mongo));
    report_draft_idle(enqueue);
    stop_wait();
    if (!id_source_open(&enqueue->ids, &error))
      report(enqueue, CONFIG_LOG_WARN, "ids", "%s; that _ids rise from one call to the next is up to the clock", error.text);
    batch_init(&enqueue->batch, (size_t)(wanted < DOCUMENTS_MAX ? wanted : DOCUMENTS_MAX));
    take_all(enqueue);
    code = summary(enqueue);
    destinations_deinit(&enqueue->destinations);
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
