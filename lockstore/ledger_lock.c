#include "lockstore/document.h"
#include "lockstore/ledger.h"
#include "lockstore/mongo.h"

#include <assert.h>

/* The ledger of a lock that is no type: the token of one with slots, a counter beside their number; and the end of it. */

#define OWNER(owner) BCON_BIN(BSON_SUBTYPE_BINARY, (owner)->bytes, OWNER_BYTES)

/* The ledger says that the name is something else. */
static enum outcome drawn_by_others(struct lockstore *store, const char *type, int *found, struct error *error)
{
  struct ledger ledger;
  enum outcome outcome = ledger_read(store, type, &ledger, error);
  *found = ledger.slots;
  if (outcome == OUTCOME_NO) { /* removed again, or the majority does not have it yet */
    error_set(error, "drawing a token: the ledger of %s is just being made", type);
    outcome = OUTCOME_UNKNOWN;
  }
  return outcome == OUTCOME_YES ? OUTCOME_NO : outcome;
}

enum outcome ledger_draw(struct lockstore *store, const char *type, int slots, const struct owner *owner, int64_t *token, int *found,
                         struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command =
      BCON_NEW("findAndModify", "ledger", "query", "{", "_id", BCON_UTF8(type), "v", BCON_INT32(1), "slots", BCON_INT32(slots), "epoch",
               "{", "$not", "{", "$gte", BCON_INT64(LEDGER_EPOCH_MAX), "}", "}", "}", "update", "{", "$inc", "{", "epoch", BCON_INT64(1),
               "}", "$set", "{", "owner", OWNER(owner), "}", "$setOnInsert", "{", "clean", BCON_BOOL(false), "seq", BCON_INT64(0), "items",
               BCON_INT64(0), "settled", BCON_INT64(0), "}", "}", "new", BCON_BOOL(true), "upsert", BCON_BOOL(true));
  mongo_append_write_concern(command);
  mongo_append_max_time(mongo, command);
  bson_t reply, value;
  int code;
  enum outcome outcome = mongo_command(mongo, "drawing a token", command, &reply, &code, error);
  if (outcome == OUTCOME_YES && !(document_document(&reply, "value", &value) && document_int64(&value, "epoch", token))) {
    error_set(error, "drawing a token: the reply has no epoch");
    outcome = OUTCOME_UNKNOWN;
  }
  bson_destroy(command);
  bson_destroy(&reply);
  return outcome == OUTCOME_NO ? drawn_by_others(store, type, found, error) : outcome;
}

enum outcome ledger_forget(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner, struct error *error)
{
  int64_t count = 0;
  assert(epoch > 0);
  bson_t *command = BCON_NEW("delete", "ledger", "deletes", "[", "{", "q", "{", "_id", BCON_UTF8(type), "v", BCON_INT32(1), "epoch",
                             BCON_INT64(epoch), "owner", OWNER(owner), "file", "{", "$exists", BCON_BOOL(false), "}", "seq", BCON_INT32(0),
                             "}", "limit", BCON_INT32(1), "}", "]");
  enum outcome outcome = mongo_write(lockstore_mongo(store), "forgetting the ledger", command, &count, error);
  return outcome == OUTCOME_YES && count == 0 ? OUTCOME_NO : outcome;
}
