#include "lockstore/mongo_private.h"
#include "lockstore/reach.h"

#include <time.h>

static bool reply_flag(const bson_t *reply, const char *name)
{
  bson_iter_t at;
  return bson_iter_init_find(&at, reply, name) && bson_iter_as_bool(&at);
}

static const char *reply_text(const bson_t *reply, const char *name)
{
  bson_iter_t at;
  return bson_iter_init_find(&at, reply, name) && BSON_ITER_HOLDS_UTF8(&at) ? bson_iter_utf8(&at, NULL) : NULL;
}

/* "6.0.5"; other endings (-rc1) are passed over. */
static enum outcome ask_version(struct mongo *mongo, char text[32], struct error *error)
{
  bson_t *command = BCON_NEW("buildInfo", BCON_INT32(1)), reply;
  unsigned major = 0, minor = 0, patch = 0;
  int code;
  enum outcome outcome = mongo_command(mongo, "asking MongoDB for its version", command, &reply, &code, error);
  const char *version = outcome == OUTCOME_YES ? reply_text(&reply, "version") : NULL;
  snprintf(text, 32, "%s", version ? version : "unknown");
  if (version && sscanf(version, "%5u.%5u.%5u", &major, &minor, &patch) >= 2)
    atomic_store(&mongo->version, (uint64_t)major << 32 | (uint64_t)(minor & 0xffff) << 16 | (patch & 0xffff));
  bson_destroy(command);
  bson_destroy(&reply);
  return outcome;
}

static enum outcome refuse_old(struct mongo *mongo, struct error *error)
{
  char version[32];
  if (ask_version(mongo, version, error) != OUTCOME_YES)
    return OUTCOME_UNKNOWN; /* it went away meanwhile: whatever comes back is asked again */
  error_set(error, "this MongoDB is too old: its version is %s, and pawl takes 5.0 or later", version);
  return OUTCOME_REFUSED;
}

static enum outcome refuse_wire(struct error *error)
{
  struct error reason = *error;
  error_set(error, "this MongoDB and this driver do not know each other: %.900s; pawl takes MongoDB 5.0 or later", reason.text);
  return OUTCOME_REFUSED;
}

static bool is_sharded(const bson_t *reply)
{
  return bson_has_field(reply, "configsvr") || bson_has_field(reply, "isImplicitDefaultMajorityWC") ||
         bson_has_field(reply, "lastCommittedOpTime");
}

static enum outcome refuse_sharded(const bson_t *reply, const char *me, const char *set, struct error *error)
{
  error_set(error,
            "%s, of the replica set %s, is %s of a sharded cluster, reached directly: it shows documents that belong to other shards; pawl "
            "takes a replica set of its own, whose members were not started with --shardsvr or --configsvr, or a standalone server",
            me ? me : "this MongoDB", set ? set : "(no name)",
            bson_has_field(reply, "configsvr") ? "a config server" : "a member of a shard");
  return OUTCOME_REFUSED;
}

/*
 * A server that was just started, and loads the keys of its members, gives no times for some tenths of a second; a collection that was just
 * dropped has none. So it is asked again, and refused only if it still lacks them after LACKS_MS.
 */
enum outcome mongo_lacks(struct mongo *mongo, enum mongo_lack what)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, never = 0;
  if (atomic_compare_exchange_strong(&mongo->lacks_since_ms[what], &never, now_ms))
    return OUTCOME_UNKNOWN;
  return now_ms - never >= LACKS_MS ? OUTCOME_REFUSED : OUTCOME_UNKNOWN;
}

void mongo_lacks_not(struct mongo *mongo, enum mongo_lack what)
{
  atomic_store(&mongo->lacks_since_ms[what], 0);
}

static enum outcome refuse_timeless(struct mongo *mongo, const char *me, const char *set, struct error *error)
{
  error_set(error, "%s, of the replica set %s, lacks operationTime in its replies, as a compatible database does; pawl takes MongoDB",
            me ? me : "the server", set);
  return mongo_lacks(mongo, MONGO_LACKS_TIMES);
}

/*
 *   msg isdbgrid                    REFUSED: mongos
 *   maxWireVersion below 13         REFUSED: too old
 *   configsvr                       REFUSED: a config server of a sharded cluster
 *   isImplicitDefaultMajorityWC     REFUSED: started with --shardsvr (5.0, 6.0; it takes no privilege)
 *   lastCommittedOpTime             REFUSED: a member of a shard; it is in each reply of one that has joined its cluster (the same)
 *   isreplicaset                    UNKNOWN: not initiated
 *   not isWritablePrimary           UNKNOWN: a secondary, an arbiter, or no primary at the moment
 *   setName, no operationTime       UNKNOWN; for some seconds, REFUSED: a compatible database, no MongoDB
 *   setName                         YES: replica set
 *   otherwise                       YES: standalone
 */
static enum outcome hello_judge(struct mongo *mongo, const bson_t *reply, struct error *error)
{
  bson_iter_t at;
  const char *msg = reply_text(reply, "msg"), *me = reply_text(reply, "me"), *set = reply_text(reply, "setName");
  int64_t wire = bson_iter_init_find(&at, reply, "maxWireVersion") ? bson_iter_as_int64(&at) : 0;
  if (msg && strcmp(msg, "isdbgrid") == 0) {
    error_set(error, "the MongoDB URI leads to mongos, a sharded cluster's router; pawl takes a replica set or a standalone server");
    return OUTCOME_REFUSED;
  }
  if (wire < WIRE_VERSION_MIN)
    return refuse_old(mongo, error);
  if (is_sharded(reply))
    return refuse_sharded(reply, me, set, error);
  if (reply_flag(reply, "isreplicaset")) {
    error_set(error, "this MongoDB belongs to a replica set that is not initiated yet: run pawl-setup --replica-set NAME");
    return OUTCOME_UNKNOWN;
  }
  if (!reply_flag(reply, "isWritablePrimary")) {
    const char *kind = reply_flag(reply, "arbiterOnly") ? "an arbiter" : reply_flag(reply, "secondary") ? "a secondary" : "no primary";
    error_set(error, "%s is %s of the replica set %s, and takes no writes", me ? me : "the server", kind, set ? set : "(no name)");
    return OUTCOME_UNKNOWN;
  }
  if (set && !bson_has_field(reply, "operationTime"))
    return refuse_timeless(mongo, me, set, error);
  mongo_lacks_not(mongo, MONGO_LACKS_TIMES);
  atomic_store(&mongo->deployment, set ? DEPLOYMENT_REPLICA_SET : DEPLOYMENT_STANDALONE);
  atomic_store(&mongo->wire_version, wire);
  return OUTCOME_YES;
}

/* The driver looks at the hosts from the first time on that a client is taken. */
static bool set_is_right(struct mongo *mongo, struct error *error)
{
  mongoc_client_t *client = mongo->reach ? mongo_client_take(mongo, "asking MongoDB what it is", error) : NULL;
  if (client == NULL)
    return true;
  mongo_client_give(mongo, client);
  return reach_wait(mongo->reach, mongo->timeout_ms < REACH_MS ? mongo->timeout_ms : REACH_MS, error);
}

static int64_t wall_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* The server has written `localTime` at some moment between these two. */
static void clock_compare(struct mongo *mongo, const bson_t *reply, int64_t before_us, int64_t after_us)
{
  bson_iter_t at;
  if (after_us < before_us || after_us - before_us > CLOCK_MS * 1000 || !bson_iter_init_find(&at, reply, "localTime") ||
      !BSON_ITER_HOLDS_DATE_TIME(&at))
    return;
  atomic_store(&mongo->clock_offset_us, before_us + (after_us - before_us) / 2 - bson_iter_date_time(&at) * 1000);
  atomic_store(&mongo->clock_seen, true);
}

bool mongo_clock_offset(const struct mongo *mongo, int64_t *offset_us)
{
  *offset_us = atomic_load(&mongo->clock_offset_us);
  return atomic_load(&mongo->clock_seen);
}

enum outcome mongo_hello(struct mongo *mongo, struct error *error)
{
  if (!set_is_right(mongo, error))
    return OUTCOME_REFUSED;
  bson_t *command = BCON_NEW("hello", BCON_INT32(1)), reply;
  int code;
  int64_t before_us = wall_us();
  enum outcome outcome = mongo_command(mongo, "asking MongoDB what it is", command, &reply, &code, error);
  if (outcome == OUTCOME_YES)
    clock_compare(mongo, &reply, before_us, wall_us());
  if (outcome == OUTCOME_YES)
    outcome = hello_judge(mongo, &reply, error);
  else if (code == CODE_COMMAND_NOT_FOUND)
    outcome = refuse_old(mongo, error);
  else
    outcome = code == CODE_WIRE_VERSION ? refuse_wire(error) : OUTCOME_UNKNOWN;
  char version[32];
  if (outcome == OUTCOME_YES)
    outcome = ask_version(mongo, version, error) == OUTCOME_YES ? OUTCOME_YES : OUTCOME_UNKNOWN;
  bson_destroy(command);
  bson_destroy(&reply);
  return outcome;
}
