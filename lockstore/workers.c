#include "lockstore/workers.h"
#include "lockstore/document.h"
#include "lockstore/store.h"

enum { KEPT_MS = 3600000 };

static enum outcome write_out(struct mongo *mongo, const char *doing, bson_t *command, struct error *error)
{
  int64_t ignored;
  BCON_APPEND(command, "writeConcern", "{", "w", BCON_INT32(1), "}");
  return mongo_write(mongo, doing, command, &ignored, error);
}

static enum outcome old_remove(struct mongo *mongo, struct error *error)
{
  bson_t *command = BCON_NEW("delete", "workers", "deletes", "[", "{", "q", "{", "$expr", "{", "$lt", "[", "$at", "{", "$subtract", "[",
                             "$$NOW", BCON_INT64(KEPT_MS), "]", "}", "]", "}", "}", "limit", BCON_INT32(0), "}", "]");
  return write_out(mongo, "removing old rows of workers", command, error);
}

enum outcome workers_write(struct lockstore *store, const struct worker_row *row, const char *host, int64_t pid, bool clean,
                           struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *set = BCON_NEW("group", BCON_INT64((int64_t)row->group), "held", BCON_INT64(row->held), "stopped", BCON_INT64(row->stopped),
                         "max", BCON_INT64(row->max), "lease_ms", BCON_INT64(row->lease_ms), "host", "{", "$literal", BCON_UTF8(host), "}",
                         "pid", BCON_INT64(pid), "at", "$$NOW");
  if (row->asks)
    BCON_APPEND(set, "asks", BCON_BIN(BSON_SUBTYPE_BINARY, row->asked.bytes, ADDRESS_BYTES));
  else
    BCON_APPEND(set, "asks", "$$REMOVE");
  bson_t *command = BCON_NEW("update", "workers", "updates", "[", "{", "q", "{", "_id",
                             BCON_BIN(BSON_SUBTYPE_BINARY, store->address.bytes, ADDRESS_BYTES), "}", "u", "[", "{", "$set",
                             BCON_DOCUMENT(set), "}", "]", "upsert", BCON_BOOL(true), "}", "]");
  bson_destroy(set);
  enum outcome outcome = write_out(mongo, "writing the row of this worker", command, error);
  return outcome == OUTCOME_YES && clean ? old_remove(mongo, error) : outcome;
}

struct reading {
  const struct address *me;
  struct worker_row *rows;
  size_t *count;
};

static void row_read(void *context, const bson_t *document)
{
  const struct reading *reading = context;
  struct worker_row row = {.age_ms = 0};
  int64_t group;
  bool sound = document_binary(document, "_id", row.id.bytes, ADDRESS_BYTES) && document_int64(document, "group", &group) &&
               document_int64(document, "held", &row.held) && document_int64(document, "max", &row.max) &&
               document_int64(document, "lease_ms", &row.lease_ms) && document_int64(document, "age_ms", &row.age_ms) && row.held >= 0 &&
               row.held <= INT32_MAX;
  if (!sound || memcmp(row.id.bytes, reading->me->bytes, ADDRESS_BYTES) == 0 || *reading->count == WORKER_ROWS_MAX)
    return;
  row.group = (uint64_t)group;
  if (!document_int64(document, "stopped", &row.stopped))
    row.stopped = 0; /* a worker of before wrote it */
  row.asks = document_binary(document, "asks", row.asked.bytes, ADDRESS_BYTES);
  reading->rows[(*reading->count)++] = row;
}

enum outcome workers_read(struct lockstore *store, uint64_t group, struct worker_row *rows, size_t *count, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  struct reading reading = {.me = &store->address, .rows = rows, .count = count};
  *count = 0;
  /* Dates since 1970 only: from an older one the difference may be no int64, which fails the whole reading. */
  bson_t *command =
      BCON_NEW("find", "workers", "filter", "{", "group", BCON_INT64((int64_t)group), "at", "{", "$gt", BCON_DATE_TIME(0), "}", "}",
               "projection", "{", "group", BCON_INT32(1), "held", BCON_INT32(1), "stopped", BCON_INT32(1), "max", BCON_INT32(1), "lease_ms",
               BCON_INT32(1), "asks", BCON_INT32(1), "age_ms", "{", "$subtract", "[", "$$NOW", "$at", "]", "}", "}");
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_find(mongo, "reading the rows of the workers", command, row_read, &reading, error);
  bson_destroy(command);
  return outcome;
}

enum outcome workers_remove(struct lockstore *store, struct error *error)
{
  bson_t *command = BCON_NEW("delete", "workers", "deletes", "[", "{", "q", "{", "_id",
                             BCON_BIN(BSON_SUBTYPE_BINARY, store->address.bytes, ADDRESS_BYTES), "}", "limit", BCON_INT32(1), "}", "]");
  return write_out(lockstore_mongo(store), "removing the row of this worker", command, error);
}
