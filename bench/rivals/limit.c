/*
 * The limit: the highest rate at which documents can be drained from MongoDB into files. The program reads, writes and deletes in parallel,
 * each in the way that pawl does. It leaves out all else: no lock, no ledger, no commit, no format, and no check of who may read next.
 *
 *   limit uri=… db=… dir=… [types=t1,t2,…] [own=0] [readers=1] [deleters=2] [by=range] [ids=5000] [batch=10000] [write=1048576]
 *
 * own       1: each type has a collection of its own, messages.TYPE, and is read and deleted there in the order of its _ids
 * readers   each reads one type after another, with one cursor at read concern snapshot on the index {type, _id}
 * write     a thread appends what was read to the type's file, DIR/TYPE, in writes of at least this many bytes, and syncs the file
 * deleters  delete what is synced, `ids` messages or 8 MiB per request, in parallel, w: majority
 * by        range: by the first and the last _id, in a transaction at the reader's snapshot, and checks the count; ids: each _id, by $in
 *
 * types=* takes all types, mixed, in the order in which the collection stores them, into one file. Which numbers are best depends on the
 * machine: the benchmark tries some, and the best result is the limit.
 */
#include "tools/client.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 16, TYPES_MAX = 1024, WAITING_MAX = 8, RANGE_BYTES_MAX = 8 * 1024 * 1024 };

struct type {
  const char *collection;
  const char *name; /* NULL: all that is in the collection, by its _id */
  int file;
  int64_t length;
  struct range *first, *last; /* read but not yet written: less than write= */
  size_t bytes;
};

/* Messages that are adjacent in the index. */
struct range {
  struct range *next;
  struct type *type;
  uint64_t at; /* the snapshot that they were read from: seconds << 32 | increment */
  int64_t count;
  bson_t ids;       /* by=range: {$gte, $lte}; by=ids: an array */
  bson_value_t end; /* by=range: the last _id so far */
  uint8_t *bytes;
  size_t size, room;
  bool ends; /* the type's last range, which may hold no message */
};

/* Ranges that one kind of thread passes to the next. When the channel is full, the sender waits. */
struct channel {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct range *waiting[WAITING_MAX];
  int count;
  bool over;
};

static struct channel to_write = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
static struct channel to_delete = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static const char *db;
static bool by_range;
static int64_t ids_max, batch, write_min;
static mongoc_client_pool_t *pool;
static struct type types[TYPES_MAX];
static int types_count, types_taken;
static int64_t deleted, transactions;
static uint32_t filled_seconds, filled_increment; /* the server's time at which all inserts were done */

static void channel_put(struct channel *channel, struct range *range)
{
  pthread_mutex_lock(&channel->mutex);
  while (channel->count == WAITING_MAX)
    pthread_cond_wait(&channel->changed, &channel->mutex);
  channel->waiting[channel->count++] = range;
  pthread_cond_broadcast(&channel->changed);
  pthread_mutex_unlock(&channel->mutex);
}

static void channel_end(struct channel *channel)
{
  pthread_mutex_lock(&channel->mutex);
  channel->over = true;
  pthread_cond_broadcast(&channel->changed);
  pthread_mutex_unlock(&channel->mutex);
}

/* NULL: no more ranges will come. */
static struct range *channel_take(struct channel *channel)
{
  struct range *range = NULL;
  pthread_mutex_lock(&channel->mutex);
  while (channel->count == 0 && !channel->over)
    pthread_cond_wait(&channel->changed, &channel->mutex);
  if (channel->count > 0) {
    range = channel->waiting[0];
    memmove(channel->waiting, channel->waiting + 1, (size_t)--channel->count * sizeof range);
    pthread_cond_broadcast(&channel->changed);
  }
  pthread_mutex_unlock(&channel->mutex);
  return range;
}

static void *allocate(void *old, size_t size)
{
  void *memory = realloc(old, size);
  if (!memory)
    die("no memory");
  return memory;
}

static struct range *range_new(struct type *type, uint64_t at)
{
  struct range *range = allocate(NULL, sizeof *range);
  *range = (struct range){.type = type, .at = at};
  bson_init(&range->ids);
  return range;
}

static void range_free(struct range *range)
{
  if (range->end.value_type != BSON_TYPE_EOD)
    bson_value_destroy(&range->end);
  bson_destroy(&range->ids);
  free(range->bytes);
  free(range);
}

static void range_add(struct range *range, const uint8_t *document, uint32_t length)
{
  bson_t view;
  bson_iter_t id;
  if (!bson_init_static(&view, document, length) || !bson_iter_init_find(&id, &view, "_id"))
    die("a message without _id");
  if (!by_range) {
    bson_append_iter(&range->ids, "0", 1, &id); /* the server ignores an array's keys */
  } else {
    if (range->count == 0)
      bson_append_iter(&range->ids, "$gte", -1, &id);
    else
      bson_value_destroy(&range->end);
    bson_value_copy(bson_iter_value(&id), &range->end);
  }
  if (range->size + length > range->room)
    range->bytes = allocate(range->bytes, range->room = (range->size + length) * 2);
  memcpy(range->bytes + range->size, document, length);
  range->size += length;
  range->count++;
}

static void range_pass_on(struct range *range, bool ends)
{
  if (by_range && range->count > 0)
    bson_append_value(&range->ids, "$lte", -1, &range->end);
  range->ends = ends;
  channel_put(&to_write, range);
}

/* ---- reading ---- */

static void append_hint(bson_t *to, const struct type *type)
{
  if (type->name)
    BCON_APPEND(to, "hint", "{", "type", BCON_INT32(1), "_id", BCON_INT32(1), "}");
  else
    BCON_APPEND(to, "hint", "{", "_id", BCON_INT32(1), "}");
}

static void append_type(bson_t *filter, const struct type *type)
{
  if (type->name)
    BSON_APPEND_UTF8(filter, "type", type->name);
}

/* Without a time the server may use a snapshot from before the last inserts. */
static void note_filled(mongoc_client_t *client)
{
  bson_t reply, *command = BCON_NEW("ping", BCON_INT32(1));
  bson_iter_t time;
  send_command_in(client, db, command, NULL, &reply);
  if (!bson_iter_init_find(&time, &reply, "operationTime"))
    die("the limit needs a replica set");
  bson_iter_timestamp(&time, &filled_seconds, &filled_increment);
  bson_destroy(&reply);
  bson_destroy(command);
}

static bson_t *find_command(const struct type *type)
{
  bson_t *command =
      BCON_NEW("find", BCON_UTF8(type->collection), "sort", "{", "_id", BCON_INT32(1), "}", "batchSize", BCON_INT64(batch), "readConcern",
               "{", "level", "snapshot", "afterClusterTime", BCON_TIMESTAMP(filled_seconds, filled_increment), "}");
  bson_t filter;
  BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
  append_type(&filter, type);
  bson_append_document_end(command, &filter);
  append_hint(command, type);
  return command;
}

/* Adds the reply's documents to the range, and passes on each range that is full. Returns the range that is open afterwards. */
static struct range *take_batch(struct range *range, const bson_t *reply, const char *name)
{
  bson_iter_t at, documents;
  if (!bson_iter_init(&at, reply) || !bson_iter_find_descendant(&at, name, &documents) || !bson_iter_recurse(&documents, &at))
    die("an answer without a batch");
  while (bson_iter_next(&at)) {
    const uint8_t *document;
    uint32_t length;
    bson_iter_document(&at, &length, &document);
    range_add(range, document, length);
    if (range->count == ids_max || range->size >= RANGE_BYTES_MAX) {
      struct range *next = range_new(range->type, range->at);
      range_pass_on(range, false);
      range = next;
    }
  }
  return range;
}

static int64_t reply_cursor(const bson_t *reply)
{
  bson_iter_t at, id;
  return bson_iter_init(&at, reply) && bson_iter_find_descendant(&at, "cursor.id", &id) ? bson_iter_as_int64(&id) : 0;
}

static uint64_t reply_snapshot(const bson_t *reply)
{
  bson_iter_t at, time;
  uint32_t seconds = 0, increment = 0;
  if (bson_iter_init(&at, reply) && bson_iter_find_descendant(&at, "cursor.atClusterTime", &time))
    bson_iter_timestamp(&time, &seconds, &increment);
  return (uint64_t)seconds << 32 | increment;
}

static void read_type(mongoc_client_t *client, const bson_t *session, struct type *type)
{
  bson_t reply, *command = find_command(type);
  send_command_in(client, db, command, session, &reply);
  bson_destroy(command);
  struct range *range = take_batch(range_new(type, reply_snapshot(&reply)), &reply, "cursor.firstBatch");
  int64_t id = reply_cursor(&reply);
  while (id != 0) {
    bson_destroy(&reply);
    command = BCON_NEW("getMore", BCON_INT64(id), "collection", BCON_UTF8(type->collection), "batchSize", BCON_INT64(batch));
    send_command_in(client, db, command, session, &reply);
    bson_destroy(command);
    range = take_batch(range, &reply, "cursor.nextBatch");
    id = reply_cursor(&reply);
  }
  bson_destroy(&reply);
  range_pass_on(range, true);
}

static void *reader(void *client)
{
  bson_t session;
  session_open(client, &session);
  for (int i; (i = __atomic_fetch_add(&types_taken, 1, __ATOMIC_RELAXED)) < types_count;)
    read_type(client, &session, &types[i]);
  bson_destroy(&session);
  return NULL;
}

/* ---- writing ---- */

static void write_out(struct type *type)
{
  for (struct range *range = type->first; range; range = range->next) {
    if (range->size > 0 && pwrite(type->file, range->bytes, range->size, type->length) != (ssize_t)range->size)
      die("writing the file failed");
    type->length += (int64_t)range->size;
  }
  if (type->bytes > 0 && fdatasync(type->file) != 0)
    die("syncing the file failed");
  for (struct range *range = type->first, *next; range; range = next) {
    next = range->next;
    if (range->count > 0)
      channel_put(&to_delete, range);
    else
      range_free(range);
  }
  type->first = type->last = NULL;
  type->bytes = 0;
}

static void *writer(void *unused)
{
  (void)unused;
  for (struct range *range; (range = channel_take(&to_write)) != NULL;) {
    struct type *type = range->type;
    bool ends = range->ends;
    if (type->last)
      type->last->next = range;
    else
      type->first = range;
    type->last = range;
    type->bytes += range->size;
    if (ends || type->bytes >= (size_t)write_min)
      write_out(type);
  }
  channel_end(&to_delete);
  return NULL;
}

/* ---- deleting ---- */

static bson_t *delete_command(const struct range *range)
{
  bson_t entry = BSON_INITIALIZER, filter, id;
  BSON_APPEND_DOCUMENT_BEGIN(&entry, "q", &filter);
  append_type(&filter, range->type);
  if (by_range) {
    BSON_APPEND_DOCUMENT(&filter, "_id", &range->ids);
  } else {
    BSON_APPEND_DOCUMENT_BEGIN(&filter, "_id", &id);
    BSON_APPEND_ARRAY(&id, "$in", &range->ids);
    bson_append_document_end(&filter, &id);
  }
  bson_append_document_end(&entry, &filter);
  BSON_APPEND_INT32(&entry, "limit", 0);
  append_hint(&entry, range->type);
  bson_t *command = BCON_NEW("delete", BCON_UTF8(range->type->collection), "deletes", "[", BCON_DOCUMENT(&entry), "]");
  bson_destroy(&entry);
  return command;
}

static void send_counted(mongoc_client_t *client, const struct range *range, const bson_t *command, const bson_t *session)
{
  bson_t reply;
  bson_iter_t n;
  send_command_in(client, db, command, session, &reply);
  if (!bson_iter_init_find(&n, &reply, "n") || bson_iter_as_int64(&n) != range->count)
    die("a delete of %lld messages: %s", (long long)range->count, bson_as_relaxed_extended_json(&reply, NULL));
  bson_destroy(&reply);
}

/*
 * Each session serves one transaction: the server writes the transaction into the session's record at a time later than the snapshot that
 * the next transaction would read at.
 */
static void delete_range(mongoc_client_t *client, const struct range *range)
{
  bson_t session, concern, reply, *command = delete_command(range), *commit = BCON_NEW("commitTransaction", BCON_INT32(1));
  int64_t number = __atomic_add_fetch(&transactions, 1, __ATOMIC_RELAXED);
  session_open(client, &session);
  BSON_APPEND_DOCUMENT_BEGIN(command, "readConcern", &concern);
  BSON_APPEND_UTF8(&concern, "level", "snapshot");
  BSON_APPEND_TIMESTAMP(&concern, "atClusterTime", (uint32_t)(range->at >> 32), (uint32_t)range->at);
  bson_append_document_end(command, &concern);
  BCON_APPEND(command, "startTransaction", BCON_BOOL(true), "txnNumber", BCON_INT64(number), "autocommit", BCON_BOOL(false));
  send_counted(client, range, command, &session);
  BCON_APPEND(commit, "txnNumber", BCON_INT64(number), "autocommit", BCON_BOOL(false));
  append_majority(commit);
  send_command_in(client, "admin", commit, &session, &reply);
  bson_destroy(&reply);
  bson_destroy(commit);
  bson_destroy(command);
  bson_destroy(&session);
}

static void delete_ids(mongoc_client_t *client, const struct range *range)
{
  bson_t *command = delete_command(range);
  append_majority(command);
  send_counted(client, range, command, NULL);
  bson_destroy(command);
}

static void *deleter(void *client)
{
  for (struct range *range; (range = channel_take(&to_delete)) != NULL; range_free(range)) {
    if (by_range)
      delete_range(client, range);
    else
      delete_ids(client, range);
    __atomic_add_fetch(&deleted, range->count, __ATOMIC_RELAXED);
  }
  return NULL;
}

/* ---- main ---- */

static void open_types(char *names, const char *dir, bool own)
{
  char path[4096], *rest = NULL, *collection = NULL;
  for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
    bool all = strcmp(name, "*") == 0;
    snprintf(path, sizeof path, "%s/%s", dir, all ? "all" : name);
    if (types_count == TYPES_MAX)
      die("types=: at most %d", TYPES_MAX);
    if (own && asprintf(&collection, "messages.%s", name) < 0)
      die("no memory");
    types[types_count] = (struct type){.collection = own ? collection : "messages",
                                       .name = all || own ? NULL : name,
                                       .file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0640)};
    if (types[types_count++].file < 0)
      die("%s cannot be made", path);
  }
}

static void start(pthread_t *thread, void *(*run)(void *), mongoc_client_t *client)
{
  if (pthread_create(thread, NULL, run, client) != 0)
    die("no thread");
}

int main(int argc, char **argv)
{
  (void)argc;
  pthread_t reading[THREADS_MAX], deleting[THREADS_MAX], writing;
  mongoc_client_t *clients[2 * THREADS_MAX];
  int64_t readers = argument_number(argv, "readers", "1"), deleters = argument_number(argv, "deleters", "2");
  if (readers < 1 || readers > THREADS_MAX || deleters < 1 || deleters > THREADS_MAX)
    die("readers=, deleters=: 1 to %d", THREADS_MAX);
  db = argument(argv, "db", NULL);
  by_range = strcmp(argument(argv, "by", "range"), "range") == 0;
  ids_max = argument_number(argv, "ids", "5000");
  batch = argument_number(argv, "batch", "10000");
  write_min = argument_number(argv, "write", "1048576");
  open_types(strdup(argument(argv, "types", "t1")), argument(argv, "dir", NULL), argument_number(argv, "own", "0") != 0);
  pool = pool_open(argument(argv, "uri", NULL));
  for (int64_t i = 0; i < readers + deleters; i++) /* the clock begins after this, as in every program of the benchmark */
    clients[i] = client_connected(pool);
  note_filled(clients[0]);
  int64_t begin = wall_ns();
  start(&writing, writer, NULL);
  for (int64_t i = 0; i < readers; i++)
    start(&reading[i], reader, clients[i]);
  for (int64_t i = 0; i < deleters; i++)
    start(&deleting[i], deleter, clients[readers + i]);
  for (int64_t i = 0; i < readers; i++)
    pthread_join(reading[i], NULL);
  channel_end(&to_write);
  pthread_join(writing, NULL);
  for (int64_t i = 0; i < deleters; i++)
    pthread_join(deleting[i], NULL);
  print_result(deleted, begin);
  end_at_once();
}
