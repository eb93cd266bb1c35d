/*
 * A producer: inserts messages of an exact size into the queue, with rising _ids.
 *
 *   fill uri=… db=… count=100000 [bytes=256] [types=t1,t2] [own=0] [bundle=1] [chunk=0] [rate=0] [waiting=0] [times=FILE] [most_s=60]
 *
 * count    documents; types take turns
 * own      1: each type has a collection of its own, messages.TYPE, and the types take turns insert by insert
 * bytes    size of a message: of the whole document, or, in a bundle, of each of its items
 * bundle   above 1: documents {_id, type, batch: […]} of this many messages
 * chunk    documents in one insert; 0: about 256 KiB
 * rate     documents a second; 0: as fast as possible. The time between two inserts is random, half to one and a half of the mean, so
 *          that inserts do not fall into step with any other program's timer
 * waiting  above 0: while the collection's own count is above this, nothing is inserted
 * times    writes each insert as a line `first count sent acknowledged`: the number of its first document from 1, the number of
 *          documents, wall clock in ns; with a rate, `sent` is when the insert was due, however late it was sent.
 *          With `times` inserts are w: majority, otherwise w: 1
 * most_s   ends after this many seconds, whatever it has inserted
 *
 * Prints how many documents it inserted, how long that took, and for how long of it `waiting` held it up.
 */
#include "bson_array.h"
#include "tools/client.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum { TYPES_MAX = 20000, ITEM_BYTES_MIN = 32, CHUNK_BYTES = 256 * 1024, CHUNK_MAX = 10000, LOOK_MS = 2 };

struct producer {
  mongoc_collection_t *messages[TYPES_MAX]; /* one for all types, or one each */
  char *types[TYPES_MAX];
  bool own;
  int type_count;
  int64_t bundle, bytes, waiting, held_ns, inserts;
  uint8_t id[12]; /* 4 bytes seconds, 4 nanoseconds, 4 number: rises within a run and from run to run */
  uint32_t random;
};

/* ---- documents ---- */

static uint32_t random_next(struct producer *producer)
{
  uint32_t x = producer->random;
  x ^= x << 13, x ^= x >> 17, x ^= x << 5;
  return producer->random = x;
}

static void big_endian(uint8_t at[4], uint32_t number)
{
  for (int i = 0; i < 4; i++)
    at[i] = (uint8_t)(number >> (24 - 8 * i));
}

/* A text that makes `document` exactly `bytes` long. Its letters are random, because a server compresses others to almost nothing. */
static void append_payload(struct producer *producer, bson_t *document, int64_t bytes)
{
  enum { OVERHEAD = 1 + sizeof "payload" + 4 + 1 }; /* of the element: kind, name, length, NUL */
  static char text[16 * 1024 * 1024];
  int64_t length = bytes - (int64_t)document->len - OVERHEAD;
  if (length < 0 || length > (int64_t)sizeof text)
    die("bytes=%lld is not possible", (long long)bytes);
  for (int64_t i = 0; i < length; i += 5) {
    uint32_t letters = random_next(producer);
    for (int64_t k = i; k < i + 5 && k < length; k++, letters >>= 6)
      text[k] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[letters & 63];
  }
  bson_append_utf8(document, "payload", -1, text, (int)length);
}

static void append_batch(struct producer *producer, bson_t *document)
{
  bson_t batch;
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(document, "batch", &batch);
  for (uint32_t i = 0; i < producer->bundle; i++) {
    char buffer[16];
    const char *key;
    bson_t item;
    size_t length = bson_uint32_to_string(i, &key, buffer, sizeof buffer);
    bson_append_document_begin(&batch, key, (int)length, &item);
    append_payload(producer, &item, producer->bytes);
    bson_append_document_end(&batch, &item);
  }
  bson_append_array_end(document, &batch);
}

/* `type`: which of them. */
static bson_t *document_new(struct producer *producer, int64_t number, int64_t type)
{
  bson_t *document = bson_new();
  bson_oid_t id;
  big_endian(producer->id + 8, (uint32_t)number);
  memcpy(id.bytes, producer->id, sizeof id.bytes);
  BSON_APPEND_OID(document, "_id", &id);
  BSON_APPEND_UTF8(document, "type", producer->types[type]);
  if (producer->bundle > 1)
    append_batch(producer, document);
  else
    append_payload(producer, document, producer->bytes);
  return document;
}

/* ---- inserting ---- */

static void insert(struct producer *producer, int64_t first, int64_t count)
{
  static bson_t *documents[CHUNK_MAX];
  bson_error_t error;
  int64_t own = producer->own ? producer->inserts++ % producer->type_count : 0;
  for (int64_t i = 0; i < count; i++)
    documents[i] = document_new(producer, first + i, producer->own ? own : (first + i) % producer->type_count);
  if (!mongoc_collection_insert_many(producer->messages[own], (const bson_t **)documents, (size_t)count, NULL, NULL, &error))
    die("%s", error.message);
  for (int64_t i = 0; i < count; i++)
    bson_destroy(documents[i]);
}

static void sleep_until(int64_t when_ns)
{
  struct timespec until = {.tv_sec = when_ns / 1000000000, .tv_nsec = when_ns % 1000000000};
  while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == EINTR)
    ;
}

static int64_t count_waiting(struct producer *producer)
{
  bson_error_t error;
  int64_t waiting = 0, count;
  for (int i = 0; i < (producer->own ? producer->type_count : 1); i++) {
    if ((count = mongoc_collection_estimated_document_count(producer->messages[i], NULL, NULL, NULL, &error)) < 0)
      die("%s", error.message);
    waiting += count;
  }
  return waiting;
}

static void hold_while_many_wait(struct producer *producer, int64_t end_ns)
{
  int64_t begin = wall_ns();
  while (count_waiting(producer) > producer->waiting && wall_ns() < end_ns)
    sleep_until(wall_ns() + LOOK_MS * 1000000);
  producer->held_ns += wall_ns() - begin;
}

static int64_t produce(struct producer *producer, int64_t count, int64_t chunk, int64_t rate, int64_t most_s, FILE *times)
{
  int64_t begin = wall_ns(), due = begin, done = 0;
  while (done < count && wall_ns() - begin < most_s * 1000000000) {
    int64_t some = count - done < chunk ? count - done : chunk, was_due = due;
    if (producer->waiting > 0)
      hold_while_many_wait(producer, begin + most_s * 1000000000);
    if (rate > 0) {
      sleep_until(due);
      due += chunk * 1000000000 / rate * (512 + random_next(producer) % 1024) / 1024;
    }
    int64_t sent = wall_ns();
    insert(producer, done, some);
    if (times)
      fprintf(times, "%lld %lld %lld %lld\n", (long long)done + 1, (long long)some, (long long)(rate > 0 ? was_due : sent),
              (long long)wall_ns());
    done += some;
  }
  return done;
}

static void take_types(struct producer *producer, char *list)
{
  for (char *rest = list, *name; (name = strsep(&rest, ",")) != NULL; producer->types[producer->type_count++] = name)
    if (producer->type_count == TYPES_MAX)
      die("types=: more than %d", TYPES_MAX);
}

/* As `times` says, acknowledged by the majority or by one. */
static void open_collections(struct producer *producer, mongoc_client_t *client, const char *db, bool majority)
{
  mongoc_write_concern_t *concern = mongoc_write_concern_new();
  mongoc_write_concern_set_w(concern, majority ? MONGOC_WRITE_CONCERN_W_MAJORITY : 1);
  for (int i = 0; i < (producer->own ? producer->type_count : 1); i++) {
    char name[256];
    snprintf(name, sizeof name, producer->own ? "messages.%s" : "messages", producer->types[i]);
    producer->messages[i] = mongoc_client_get_collection(client, db, name);
    mongoc_collection_set_write_concern(producer->messages[i], concern);
  }
}

static int64_t chunk_choose(char **argv, const struct producer *producer)
{
  int64_t chunk = argument_number(argv, "chunk", "0");
  if (chunk == 0)
    chunk = CHUNK_BYTES / (producer->bytes * producer->bundle);
  return chunk < 1 ? 1 : chunk > CHUNK_MAX ? CHUNK_MAX : chunk;
}

int main(int argc, char **argv)
{
  (void)argc;
  struct producer producer = {.bundle = argument_number(argv, "bundle", "1"),
                              .bytes = argument_number(argv, "bytes", "256"),
                              .waiting = argument_number(argv, "waiting", "0"),
                              .own = argument_number(argv, "own", "0") != 0};
  const char *path = argument(argv, "times", "");
  FILE *times = *path ? fopen(path, "w") : NULL;
  int64_t now = wall_ns();
  producer.random = (uint32_t)now | 1;
  big_endian(producer.id, (uint32_t)(now / 1000000000));
  big_endian(producer.id + 4, (uint32_t)(now % 1000000000));
  take_types(&producer, strdup(argument(argv, "types", "t1")));

  mongoc_client_pool_t *pool = pool_open(argument(argv, "uri", NULL));
  mongoc_client_t *client = mongoc_client_pool_pop(pool);
  open_collections(&producer, client, argument(argv, "db", NULL), times != NULL);

  int64_t begin = wall_ns();
  int64_t done = produce(&producer, argument_number(argv, "count", NULL), chunk_choose(argv, &producer), argument_number(argv, "rate", "0"),
                         argument_number(argv, "most_s", "60"), times);
  if (times && fclose(times) != 0)
    die("writing %s failed", path);
  printf("{\"documents\": %lld, \"produced_s\": %.6f, \"held_s\": %.6f}\n", (long long)done, (double)(wall_ns() - begin) / 1e9,
         (double)producer.held_ns / 1e9);
  end_at_once();
}
