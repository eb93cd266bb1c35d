#include "lockstore/initiate.h"
#include "bson_array.h"
#include "lockstore/document.h"
#include "lockstore/mongo.h"

#include <stdlib.h>
#include <strings.h>

enum { CODE_ALREADY_INITIALIZED = 23, CODE_NODE_NOT_FOUND = 74 };

/* ---- the set ---- */

/*
 *   msg isdbgrid            REFUSED: mongos
 *   setName is `name`       YES: done already
 *   setName is another      REFUSED
 *   isreplicaset            NO: to be initiated
 *   otherwise               REFUSED: a standalone server
 */
static enum outcome judge(const bson_t *hello, const char *name, struct error *error)
{
  char set[128], msg[32];
  bool waiting = false;
  if (document_text(hello, "msg", msg, sizeof msg) && strcmp(msg, "isdbgrid") == 0) {
    error_set(error, "this is mongos, a sharded cluster's router: pawl takes a replica set or a standalone server");
    return OUTCOME_REFUSED;
  }
  if (document_text(hello, "setName", set, sizeof set)) {
    if (strcmp(set, name) == 0)
      return OUTCOME_YES;
    error_set(error, "this MongoDB belongs to the replica set \"%s\" already, and not to \"%s\"", set, name);
    return OUTCOME_REFUSED;
  }
  if (document_bool(hello, "isreplicaset", &waiting) && waiting)
    return OUTCOME_NO;
  error_set(error, "this MongoDB is a standalone server: start it with --replSet %s (replication.replSetName in mongod.conf)", name);
  return OUTCOME_REFUSED;
}

/* hello has the hidden ones not; else all. Ports are told apart, for a member without one has MongoDB's own. */
static bool is_member(const bson_t *hello, const char *member)
{
  static const char *const lists[] = {"hosts", "passives", "arbiters"};
  const char *bracket = strrchr(member, ']');
  const char *port = strchr(bracket ? bracket : member, ':') ? "" : ":27017";
  char address[300];
  bson_iter_t at, one;
  snprintf(address, sizeof address, "%s%s", member, port);
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (bson_iter_init_find(&at, hello, lists[i]) && bson_iter_recurse(&at, &one))
      while (bson_iter_next(&one))
        if (BSON_ITER_HOLDS_UTF8(&one) && strcasecmp(bson_iter_utf8(&one, NULL), address) == 0)
          return true;
  return false;
}

/* A set that was initiated with fewer is not the one that was asked for, and does not become it by itself. */
static enum outcome compare(const bson_t *hello, const char *name, const struct members *members, struct error *error)
{
  char lacking[500] = "";
  for (size_t i = 0, used = 0; members->named && i < members->count && used < sizeof lacking; i++)
    if (!is_member(hello, members->list[i]))
      used += (size_t)snprintf(lacking + used, sizeof lacking - used, "%s%s", used ? ", " : "", members->list[i]);
  if (lacking[0] == '\0')
    return OUTCOME_YES;
  error_set(error,
            "the replica set \"%s\" was initiated already, and without %s (its members: %.300s): add them with rs.add(), or begin with new "
            "data; nothing was changed",
            name, lacking, document_show(hello, "hosts").text);
  return OUTCOME_REFUSED;
}

static enum outcome look(struct mongo *mongo, const char *name, const struct members *members, struct error *error)
{
  bson_t *command = BCON_NEW("hello", BCON_INT32(1)), reply;
  int code;
  enum outcome outcome = mongo_command(mongo, "asking MongoDB what it is", command, &reply, &code, error);
  if (outcome == OUTCOME_YES)
    outcome = judge(&reply, name, error);
  if (outcome == OUTCOME_YES)
    outcome = compare(&reply, name, members, error);
  bson_destroy(command);
  bson_destroy(&reply);
  return outcome;
}

/* An answer with a code is the server's own, and it will not answer otherwise; one without came from the network. */
static enum outcome initiate(struct mongo *mongo, const char *name, const struct members *members, int *code, struct error *error)
{
  bson_t command = BSON_INITIALIZER, reply, config, list;
  BSON_APPEND_DOCUMENT_BEGIN(&command, "replSetInitiate", &config);
  BSON_APPEND_UTF8(&config, "_id", name);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&config, "members", &list);
  for (size_t i = 0; i < members->count; i++) {
    char key[24];
    snprintf(key, sizeof key, "%zu", i);
    bson_t member;
    bson_append_document_begin(&list, key, -1, &member);
    BSON_APPEND_INT32(&member, "_id", (int32_t)i);
    BSON_APPEND_UTF8(&member, "host", members->list[i]);
    bson_append_document_end(&list, &member);
  }
  bson_append_array_end(&config, &list);
  bson_append_document_end(&command, &config);
  enum outcome outcome = mongo_command(mongo, "initiating the replica set", &command, &reply, code, error);
  bson_destroy(&command);
  bson_destroy(&reply);
  /* A member that does not answer may be starting. */
  return outcome == OUTCOME_UNKNOWN && *code != 0 && *code != CODE_NODE_NOT_FOUND ? OUTCOME_REFUSED : outcome;
}

enum outcome replica_set_initiate(struct lockstore *store, const char *name, const struct members *members, bool *made, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  int code;
  *made = false;
  enum outcome outcome = look(mongo, name, members, error);
  if (outcome != OUTCOME_NO)
    return outcome;
  outcome = initiate(mongo, name, members, &code, error);
  *made = outcome == OUTCOME_YES;
  return outcome == OUTCOME_REFUSED && code == CODE_ALREADY_INITIALIZED ? look(mongo, name, members, error) : outcome;
}

/* ---- the URI ---- */

static char *host_with_port(const char *from, size_t length)
{
  char *host = NULL;
  const char *bracket = memchr(from, ']', length), *after = bracket ? bracket : from;
  bool port = memchr(after, ':', length - (size_t)(after - from)) != NULL;
  return asprintf(&host, "%.*s%s", (int)length, from, port ? "" : ":27017") < 0 ? NULL : host;
}

/* The query without replicaSet and directConnection: a server that is not in a set yet would not match the one, the other is ours. */
static void copy_query(char *to, const char *query)
{
  const char *separator = "";
  while (*query) {
    size_t length = strcspn(query, "&");
    if (strncasecmp(query, "replicaSet=", 11) != 0 && strncasecmp(query, "directConnection=", 17) != 0) {
      to += sprintf(to, "%s%.*s", separator, (int)length, query);
      separator = "&";
    }
    query += length + (query[length] ? 1 : 0);
  }
}

bool uri_split(const char *uri, char **direct, char **hosts, size_t hosts_max, size_t *count, struct error *error)
{
  static const char scheme[] = "mongodb://";
  *count = 0;
  *direct = NULL;
  if (strncmp(uri, scheme, sizeof scheme - 1) != 0) {
    error_set(error, "to initiate a replica set, the URI must begin with mongodb:// and name a host");
    return false;
  }
  const char *begin = uri + sizeof scheme - 1;
  size_t authority = strcspn(begin, "/?");
  const char *end = begin + authority, *user = memrchr(begin, '@', authority), *at = user ? user + 1 : begin;
  const char *query = strchr(end, '?');
  size_t first = strcspn(at, ",/?");
  *direct = calloc(1, strlen(uri) + 2);
  if (!*direct) {
    error_set(error, "out of memory");
    return false;
  }
  int used = sprintf(*direct, "%.*s%.*s/", (int)(at - uri), uri, (int)first, at);
  if (*end == '/')
    used += sprintf(*direct + used, "%.*s", (int)strcspn(end + 1, "?"), end + 1);
  if (query) {
    used += sprintf(*direct + used, "?");
    copy_query(*direct + used, query + 1);
  }
  while (at < end && *count < hosts_max) {
    size_t length = strcspn(at, ",/?");
    char *host = host_with_port(at, length);
    if (host)
      hosts[(*count)++] = host;
    at += length + 1;
  }
  return true;
}
