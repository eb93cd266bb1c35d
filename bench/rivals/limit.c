/*
 * The limit: what MongoDB itself takes to give the messages of a type away and forget them. One thread reads, over one cursor with
 * large batches on the index {type, _id}; others delete what was read, beside one another, w: majority. Nothing is written to a file,
 * nothing is locked, recorded or checked.
 *
 *   limit uri=… db=… type=t1 deleters=2 [by=ids] [ids=2000] [batch=10000]
 *
 * type     `*`: all types, mixed, in the order in which the collection has them
 * by       what a delete names: `ids`, each _id, by $in; `range`, the first and the last, which is right only while nobody inserts
 *
 * How many deleters are best depends on the machine: the benchmark tries some, and takes the best.
 */
#include "tools/client.h"

#include <pthread.h>
#include <stdlib.h>

enum { DELETERS_MAX = 16, WAITING_MAX = 4 };

/* Batches of _ids on their way from the reader to a deleter; a full one makes the reader wait. */
static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bson_t *waiting[WAITING_MAX];
  int count;
  bool over;
} queue = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, {NULL}, 0, false};

static const char *db, *type; /* NULL: all */
static bool by_range;
static mongoc_client_pool_t *pool;
static int64_t deleted;

static void queue_put(bson_t *ids)
{
  pthread_mutex_lock(&queue.mutex);
  while (queue.count == WAITING_MAX)
    pthread_cond_wait(&queue.changed, &queue.mutex);
  queue.waiting[queue.count++] = ids;
  pthread_cond_broadcast(&queue.changed);
  pthread_mutex_unlock(&queue.mutex);
}

static void queue_end(void)
{
  pthread_mutex_lock(&queue.mutex);
  queue.over = true;
  pthread_cond_broadcast(&queue.changed);
  pthread_mutex_unlock(&queue.mutex);
}

/* NULL: there will be no more. */
static bson_t *queue_take(void)
{
  bson_t *ids = NULL;
  pthread_mutex_lock(&queue.mutex);
  while (queue.count == 0 && !queue.over)
    pthread_cond_wait(&queue.changed, &queue.mutex);
  if (queue.count > 0) {
    ids = queue.waiting[0];
    memmove(queue.waiting, queue.waiting + 1, (size_t)--queue.count * sizeof ids);
    pthread_cond_broadcast(&queue.changed);
  }
  pthread_mutex_unlock(&queue.mutex);
  return ids;
}

static void append_hint(bson_t *to)
{
  if (type)
    BCON_APPEND(to, "hint", "{", "type", BCON_INT32(1), "_id", BCON_INT32(1), "}");
  else
    BCON_APPEND(to, "hint", "{", "_id", BCON_INT32(1), "}");
}

static void append_ids(bson_t *filter, const bson_t *ids)
{
  bson_t id;
  bson_iter_t at;
  BSON_APPEND_DOCUMENT_BEGIN(filter, "_id", &id);
  if (by_range) {
    bson_iter_init(&at, ids);
    bson_iter_next(&at);
    bson_append_iter(&id, "$gte", -1, &at);
    for (bson_iter_t next = at; bson_iter_next(&next);)
      at = next;
    bson_append_iter(&id, "$lte", -1, &at);
  } else {
    BSON_APPEND_ARRAY(&id, "$in", ids);
  }
  bson_append_document_end(filter, &id);
}

static void delete_ids(mongoc_client_t *client, const bson_t *ids)
{
  bson_t entry = BSON_INITIALIZER, filter;
  BSON_APPEND_DOCUMENT_BEGIN(&entry, "q", &filter);
  if (type)
    BSON_APPEND_UTF8(&filter, "type", type);
  append_ids(&filter, ids);
  bson_append_document_end(&entry, &filter);
  BSON_APPEND_INT32(&entry, "limit", 0);
  append_hint(&entry);
  bson_t *command = BCON_NEW("delete", "messages", "deletes", "[", BCON_DOCUMENT(&entry), "]");
  bson_t reply;
  bson_iter_t at;
  append_majority(command);
  send_command(client, db, command, &reply);
  if (bson_iter_init_find(&at, &reply, "n"))
    __atomic_add_fetch(&deleted, bson_iter_as_int64(&at), __ATOMIC_RELAXED);
  bson_destroy(&reply);
  bson_destroy(command);
  bson_destroy(&entry);
}

static void *deleter(void *unused)
{
  (void)unused;
  mongoc_client_t *client = mongoc_client_pool_pop(pool);
  for (bson_t *ids; (ids = queue_take()) != NULL; bson_destroy(ids))
    delete_ids(client, ids);
  mongoc_client_pool_push(pool, client);
  return NULL;
}

static void read_all(int64_t batch, int64_t ids_max)
{
  mongoc_client_t *client = mongoc_client_pool_pop(pool);
  mongoc_collection_t *messages = mongoc_client_get_collection(client, db, "messages");
  bson_t *filter = type ? BCON_NEW("type", BCON_UTF8(type)) : bson_new();
  bson_t *options = BCON_NEW("sort", "{", "_id", BCON_INT32(1), "}", "batchSize", BCON_INT64(batch));
  append_hint(options);
  mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(messages, filter, options, NULL);
  const bson_t *document;
  bson_t *ids = bson_new();
  bson_error_t error;
  uint32_t count = 0;
  while (mongoc_cursor_next(cursor, &document)) {
    char buffer[16];
    const char *key;
    bson_iter_t at;
    size_t length = bson_uint32_to_string(count++, &key, buffer, sizeof buffer);
    if (!bson_iter_init_find(&at, document, "_id") || !bson_append_iter(ids, key, (int)length, &at))
      die("a message without _id");
    if (count == ids_max) {
      queue_put(ids);
      ids = bson_new();
      count = 0;
    }
  }
  if (mongoc_cursor_error(cursor, &error))
    die("%s", error.message);
  if (count > 0)
    queue_put(ids);
  else
    bson_destroy(ids);
  queue_end();
  mongoc_cursor_destroy(cursor);
  bson_destroy(options);
  bson_destroy(filter);
  mongoc_collection_destroy(messages);
  mongoc_client_pool_push(pool, client);
}

int main(int argc, char **argv)
{
  (void)argc;
  pthread_t threads[DELETERS_MAX];
  int64_t deleters = argument_number(argv, "deleters", NULL);
  if (deleters < 1 || deleters > DELETERS_MAX)
    die("deleters=: takes 1 to %d", DELETERS_MAX);
  db = argument(argv, "db", NULL);
  type = argument(argv, "type", "t1");
  if (strcmp(type, "*") == 0)
    type = NULL;
  by_range = strcmp(argument(argv, "by", "ids"), "range") == 0;
  pool = pool_open(argument(argv, "uri", NULL));
  int64_t begin = wall_ns();
  for (int i = 0; i < deleters; i++)
    pthread_create(&threads[i], NULL, deleter, NULL);
  read_all(argument_number(argv, "batch", "10000"), argument_number(argv, "ids", "2000"));
  for (int i = 0; i < deleters; i++)
    pthread_join(threads[i], NULL);
  print_result(deleted, begin);
  end_at_once();
}
