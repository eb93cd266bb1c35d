#include "lockstore/document.h"
#include "lockstore/document_lock.h"
#include "lockstore/memory_private.h"

#include <assert.h>
#include <stdlib.h>

/*
 * The twin of document_lock. Of MongoDB's language it knows what programs use to find a document to work at: equality, $eq, $ne, $lt, $lte,
 * $gt, $gte, $in, $exists, $and, $or and $nor; and $set, $unset and $inc. Anything else is REFUSED.
 */

/* ---- values ---- */

static bool is_number(const bson_iter_t *value)
{
  return BSON_ITER_HOLDS_INT32(value) || BSON_ITER_HOLDS_INT64(value) || BSON_ITER_HOLDS_DOUBLE(value);
}

/* The element's value as it lies in the document. */
static void raw(const bson_iter_t *value, const uint8_t **bytes, size_t *size)
{
  bson_iter_t next = *value;
  *bytes = value->raw + value->d1;
  bool more = bson_iter_next(&next);
  *size = (more ? next.off : (uint32_t)(value->len - 1)) - value->d1;
}

enum { INCOMPARABLE = 2 };

/* Below 0, 0, above 0; INCOMPARABLE: of different kinds. */
static int compare(const bson_iter_t *a, const bson_iter_t *b)
{
  if (is_number(a) && is_number(b)) {
    double left = bson_iter_as_double(a), right = bson_iter_as_double(b);
    return (left > right) - (left < right);
  }
  if (bson_iter_type(a) != bson_iter_type(b))
    return INCOMPARABLE;
  if (BSON_ITER_HOLDS_UTF8(a)) {
    int order = strcmp(bson_iter_utf8(a, NULL), bson_iter_utf8(b, NULL));
    return (order > 0) - (order < 0);
  }
  if (BSON_ITER_HOLDS_DATE_TIME(a)) {
    int64_t left = bson_iter_date_time(a), right = bson_iter_date_time(b);
    return (left > right) - (left < right);
  }
  const uint8_t *left, *right;
  size_t left_size, right_size;
  raw(a, &left, &left_size);
  raw(b, &right, &right_size);
  int order = memcmp(left, right, left_size < right_size ? left_size : right_size);
  return order != 0 ? (order > 0) - (order < 0) : (left_size > right_size) - (left_size < right_size);
}

static bool find(const bson_t *document, const char *path, bson_iter_t *value)
{
  bson_iter_t at;
  return bson_iter_init(&at, document) && bson_iter_find_descendant(&at, path, value);
}

static bool document_of(const bson_iter_t *value, bson_t *document)
{
  const uint8_t *bytes = NULL;
  uint32_t length = 0;
  if (BSON_ITER_HOLDS_DOCUMENT(value))
    bson_iter_document(value, &length, &bytes);
  else if (BSON_ITER_HOLDS_ARRAY(value))
    bson_iter_array(value, &length, &bytes);
  return bytes != NULL && bson_init_static(document, bytes, length);
}

/* ---- matching ---- */

static bool is_among(const bson_iter_t *value, const bson_iter_t *list)
{
  bson_iter_t at;
  if (!BSON_ITER_HOLDS_ARRAY(list) || !bson_iter_recurse(list, &at))
    return false;
  while (bson_iter_next(&at))
    if (compare(value, &at) == 0)
      return true;
  return false;
}

/* `has`: the document has *value. *known becomes false where the twin does not know the operator. */
static bool operator_holds(const char *name, bool has, const bson_iter_t *value, const bson_iter_t *operand, bool *known)
{
  int order = has ? compare(value, operand) : INCOMPARABLE;
  if (strcmp(name, "$exists") == 0)
    return has == bson_iter_as_bool(operand);
  if (strcmp(name, "$eq") == 0)
    return order == 0;
  if (strcmp(name, "$ne") == 0)
    return order != 0;
  if (strcmp(name, "$in") == 0)
    return has && is_among(value, operand);
  if (strcmp(name, "$lt") == 0)
    return order == -1;
  if (strcmp(name, "$lte") == 0)
    return order == -1 || order == 0;
  if (strcmp(name, "$gt") == 0)
    return order == 1;
  if (strcmp(name, "$gte") == 0)
    return order == 1 || order == 0;
  *known = false;
  return false;
}

static bool condition_holds(const bson_t *document, const bson_iter_t *condition, bool *known)
{
  bson_iter_t value, operators;
  bool has = find(document, bson_iter_key(condition), &value), holds = true;
  if (!BSON_ITER_HOLDS_DOCUMENT(condition) || !bson_iter_recurse(condition, &operators) || !bson_iter_next(&operators) ||
      bson_iter_key(&operators)[0] != '$')
    return has && compare(&value, condition) == 0;
  do {
    holds = operator_holds(bson_iter_key(&operators), has, &value, &operators, known) && holds;
  } while (bson_iter_next(&operators));
  return holds;
}

static bool matches(const bson_t *document, const bson_t *filter, bool *known);

static bool list_holds(const bson_t *document, const bson_iter_t *list, bool *known)
{
  const char *name = bson_iter_key(list);
  bool and = strcmp(name, "$and") == 0, or = strcmp(name, "$or") == 0, any = false, all = true;
  bson_iter_t at;
  bson_t filter;
  if (!(and || or || strcmp(name, "$nor") == 0) || !BSON_ITER_HOLDS_ARRAY(list) || !bson_iter_recurse(list, &at)) {
    *known = false;
    return false;
  }
  while (bson_iter_next(&at)) {
    bool holds = document_of(&at, &filter) && matches(document, &filter, known);
    any = any || holds;
    all = all && holds;
  }
  return and? all : or ? any : !any;
}

static bool matches(const bson_t *document, const bson_t *filter, bool *known)
{
  bson_iter_t at;
  bool holds = true;
  if (!bson_iter_init(&at, filter))
    return false;
  while (bson_iter_next(&at))
    holds = (bson_iter_key(&at)[0] == '$' ? list_holds(document, &at, known) : condition_holds(document, &at, known)) && holds;
  return holds;
}

/* A field that is missing comes first. */
static bool comes_before(const bson_t *a, const bson_t *b, const bson_t *sort)
{
  bson_iter_t at, left, right;
  if (sort == NULL || !bson_iter_init(&at, sort))
    return false;
  while (bson_iter_next(&at)) {
    bool has_left = find(a, bson_iter_key(&at), &left), has_right = find(b, bson_iter_key(&at), &right);
    int order = has_left && has_right ? compare(&left, &right) : has_left - has_right;
    if (order != 0 && order != INCOMPARABLE)
      return (order < 0) == (bson_iter_as_int64(&at) >= 0);
  }
  return false;
}

/* ---- changing ---- */

/* Copies `from` to `to` with the value at the path; NULL: without it. */
static void put(bson_t *to, const bson_t *from, const char *path, const bson_iter_t *value)
{
  size_t length = strcspn(path, ".");
  bool last = path[length] == 0, done = false;
  bson_iter_t at;
  bson_t inner, changed;
  for (bool more = bson_iter_init(&at, from) && bson_iter_next(&at); more; more = bson_iter_next(&at)) {
    const char *key = bson_iter_key(&at);
    if (strncmp(key, path, length) != 0 || key[length] != 0) {
      bson_append_iter(to, NULL, 0, &at);
      continue;
    }
    done = true;
    if (last && value != NULL)
      bson_append_iter(to, key, -1, value);
    else if (!last && document_of(&at, &inner)) {
      bson_append_document_begin(to, key, -1, &changed);
      put(&changed, &inner, path + length + 1, value);
      bson_append_document_end(to, &changed);
    } else if (!last)
      bson_append_iter(to, NULL, 0, &at);
  }
  if (done || value == NULL)
    return;
  if (last) {
    bson_append_iter(to, path, (int)length, value);
    return;
  }
  static const uint8_t nothing[] = {5, 0, 0, 0, 0};
  (void)bson_init_static(&inner, nothing, sizeof nothing);
  bson_append_document_begin(to, path, (int)length, &changed);
  put(&changed, &inner, path + length + 1, value);
  bson_append_document_end(to, &changed);
}

static void set_path(bson_t **document, const char *path, const bson_iter_t *value)
{
  bson_t *changed = bson_new();
  put(changed, *document, path, value);
  bson_destroy(*document);
  *document = changed;
}

static void set_one(bson_t **document, const char *path, const bson_t *holder)
{
  bson_iter_t value;
  if (bson_iter_init(&value, holder) && bson_iter_next(&value))
    set_path(document, path, &value);
}

static void increase(bson_t **document, const char *path, const bson_iter_t *by)
{
  bson_iter_t value;
  bson_t sum = BSON_INITIALIZER;
  int64_t before = find(*document, path, &value) && is_number(&value) ? bson_iter_as_int64(&value) : 0;
  BSON_APPEND_INT64(&sum, "sum", before + bson_iter_as_int64(by));
  set_one(document, path, &sum);
  bson_destroy(&sum);
}

/* False: an operator that the twin does not know; nothing has changed. */
static bool change(bson_t **document, const bson_t *update, bool really)
{
  bson_iter_t at, of;
  if (!bson_iter_init(&at, update))
    return false;
  while (bson_iter_next(&at)) {
    const char *name = bson_iter_key(&at);
    bool set = strcmp(name, "$set") == 0, unset = strcmp(name, "$unset") == 0;
    if (!(set || unset || strcmp(name, "$inc") == 0) || !BSON_ITER_HOLDS_DOCUMENT(&at) || !bson_iter_recurse(&at, &of))
      return false;
    while (really && bson_iter_next(&of)) {
      if (set || unset)
        set_path(document, bson_iter_key(&of), set ? &of : NULL);
      else
        increase(document, bson_iter_key(&of), &of);
    }
  }
  return true;
}

/* ---- the lock ---- */

struct held { /* the field */
  bool has_owner;
  struct owner owner;
  int64_t at_ms, ttl_ms, token;
};

static void held_read(const bson_t *document, const char *field, struct held *held)
{
  bson_iter_t value;
  bson_t lock;
  *held = (struct held){.ttl_ms = TTL_MS_MAX};
  if (!find(document, field, &value) || !document_of(&value, &lock))
    return;
  held->has_owner = document_has(&lock, "owner");
  (void)document_binary(&lock, "owner", held->owner.bytes, OWNER_BYTES);
  (void)document_date(&lock, "at", &held->at_ms);
  if (!document_int64(&lock, "ttl", &held->ttl_ms))
    held->ttl_ms = TTL_MS_MAX;
  (void)(document_int64(&lock, "token", &held->token) || (held->token = 0));
}

static void held_write(bson_t **document, const char *field, const struct held *held)
{
  bson_t holder = BSON_INITIALIZER, lock;
  BSON_APPEND_DOCUMENT_BEGIN(&holder, "lock", &lock);
  if (held->has_owner) {
    BSON_APPEND_BINARY(&lock, "owner", BSON_SUBTYPE_BINARY, held->owner.bytes, OWNER_BYTES);
    BSON_APPEND_DATE_TIME(&lock, "at", held->at_ms);
    BSON_APPEND_INT64(&lock, "ttl", held->ttl_ms);
  }
  BSON_APPEND_INT64(&lock, "token", held->token);
  bson_append_document_end(&holder, &lock);
  set_one(document, field, &holder);
  bson_destroy(&holder);
}

static bool is_free(const struct held *held, const struct owner *owner, int64_t now_ms)
{
  return !held->has_owner || owner_equal(&held->owner, owner) || held->at_ms + held->ttl_ms < now_ms || held->at_ms - held->ttl_ms > now_ms;
}

static struct user_document *find_free(struct memory_server *server, const struct document_place *place, const bson_t *filter,
                                       const bson_t *sort, const struct owner *owner, bool *known)
{
  struct user_document *best = NULL;
  struct held held;
  bson_t nothing = BSON_INITIALIZER;
  (void)matches(&nothing, filter, known); /* MongoDB refuses it also where there is no document */
  bson_destroy(&nothing);
  for (int i = 0; i < server->document_count; i++) {
    struct user_document *document = &server->documents[i];
    if (strcmp(document->collection, place->collection) != 0 || !matches(document->bson, filter, known))
      continue;
    held_read(document->bson, place->field, &held);
    if (is_free(&held, owner, server->now_ms) && (best == NULL || comes_before(document->bson, best->bson, sort)))
      best = document;
  }
  return best;
}

enum outcome document_take(struct lockstore *store, const struct document_place *place, const bson_t *filter, const bson_t *sort,
                           const struct owner *owner, int64_t ttl_ms, bson_t *document, int64_t *token, struct error *error)
{
  bool lost, known = true;
  enum outcome outcome = OUTCOME_NO;
  if (memory_call_begin(store, &lost)) {
    struct user_document *found = find_free(store->server, place, filter, sort, owner, &known);
    struct held held;
    if (found != NULL && known) {
      held_read(found->bson, place->field, &held);
      int64_t next = held.token + 1, now_ms = store->server->now_ms;
      held = (struct held){.has_owner = true, .owner = *owner, .at_ms = now_ms, .ttl_ms = ttl_ms, .token = next > now_ms ? next : now_ms};
      held_write(&found->bson, place->field, &held);
      *token = held.token;
      outcome = OUTCOME_YES;
      if (!lost)
        bson_copy_to(found->bson, document);
    }
    if (!known) {
      error_set(error, "locking a document: the library in memory does not know what the filter has");
      outcome = OUTCOME_REFUSED;
    }
  }
  return memory_call_end(store, lost, outcome, error);
}

/* NULL: it is not locked by this hold. */
static struct user_document *find_held(struct memory_server *server, const struct document_hold *hold, struct held *held)
{
  bson_iter_t id, other;
  for (int i = 0; i < server->document_count; i++) {
    struct user_document *document = &server->documents[i];
    if (strcmp(document->collection, hold->place.collection) != 0 || !bson_iter_init_find(&id, hold->id, "_id") ||
        !bson_iter_init_find(&other, document->bson, "_id") || compare(&id, &other) != 0)
      continue;
    held_read(document->bson, hold->place.field, held);
    return held->has_owner && owner_equal(&held->owner, &hold->owner) && held->token == hold->token ? document : NULL;
  }
  return NULL;
}

enum outcome document_renew(struct lockstore *store, const struct document_hold *hold, int64_t ttl_ms, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  struct held held;
  if (memory_call_begin(store, &lost)) {
    struct user_document *document = find_held(store->server, hold, &held);
    if (document != NULL && held.at_ms + held.ttl_ms > store->server->now_ms) {
      held.at_ms = store->server->now_ms;
      held.ttl_ms = ttl_ms;
      held_write(&document->bson, hold->place.field, &held);
      outcome = OUTCOME_YES;
    }
  }
  return memory_call_end(store, lost, outcome, error);
}

enum outcome document_release(struct lockstore *store, const struct document_hold *hold, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  struct held held;
  if (memory_call_begin(store, &lost)) {
    struct user_document *document = find_held(store->server, hold, &held);
    if (document != NULL) {
      held.has_owner = false;
      held_write(&document->bson, hold->place.field, &held);
      outcome = OUTCOME_YES;
    }
  }
  return memory_call_end(store, lost, outcome, error);
}

enum outcome document_update(struct lockstore *store, const struct document_hold *hold, const bson_t *update, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  struct held held;
  if (memory_call_begin(store, &lost)) {
    struct user_document *document = find_held(store->server, hold, &held);
    if (!change(NULL, update, false)) {
      error_set(error, "writing a document: the library in memory knows $set, $unset and $inc alone");
      outcome = OUTCOME_REFUSED;
    } else if (document != NULL) {
      (void)change(&document->bson, update, true);
      outcome = OUTCOME_YES;
    }
  }
  return memory_call_end(store, lost, outcome, error);
}

static void update_guarded(struct user_document *document, const bson_t *update, const char *path, int64_t token)
{
  bson_t holder = BSON_INITIALIZER;
  BSON_APPEND_INT64(&holder, "token", token);
  (void)change(&document->bson, update, true);
  set_one(&document->bson, path, &holder);
  bson_destroy(&holder);
}

enum outcome document_guarded_update(struct lockstore *store, const struct document_place *place, const bson_t *filter,
                                     const bson_t *update, int64_t token, bool *there, struct error *error)
{
  bool lost, known = change(NULL, update, false);
  enum outcome outcome = OUTCOME_NO;
  char path[300];
  bson_iter_t seen;
  snprintf(path, sizeof path, "%s.token", place->field);
  *there = false;
  if (memory_call_begin(store, &lost)) {
    struct memory_server *server = store->server;
    for (int i = 0; i < server->document_count && known && !*there; i++) {
      struct user_document *document = &server->documents[i];
      *there = strcmp(document->collection, place->collection) == 0 && matches(document->bson, filter, &known) && known;
      bool above = *there && find(document->bson, path, &seen) && is_number(&seen) && bson_iter_as_int64(&seen) > token;
      if (!*there || above)
        continue;
      update_guarded(document, update, path, token);
      outcome = OUTCOME_YES;
    }
    if (!known) {
      error_set(error, "writing with a token: the library in memory does not know what the filter or the update has");
      outcome = OUTCOME_REFUSED;
    }
  }
  return memory_call_end(store, lost, outcome, error);
}

void memory_server_put_document(struct memory_server *server, const char *collection, const bson_t *document)
{
  pthread_mutex_lock(&server->mutex);
  assert(strlen(collection) < sizeof server->documents->collection);
  server->documents = memory_grow(server->documents, &server->document_room, server->document_count + 1, sizeof *server->documents);
  struct user_document *made = &server->documents[server->document_count++];
  strcpy(made->collection, collection);
  made->bson = bson_copy(document);
  pthread_mutex_unlock(&server->mutex);
}

const bson_t *memory_server_document(const struct memory_server *server, const char *collection, const bson_t *filter)
{
  bool known = true;
  for (int i = 0; i < server->document_count; i++)
    if (strcmp(server->documents[i].collection, collection) == 0 && matches(server->documents[i].bson, filter, &known))
      return server->documents[i].bson;
  return NULL;
}

void memory_documents_free(struct memory_server *server)
{
  for (int i = 0; i < server->document_count; i++)
    bson_destroy(server->documents[i].bson);
}
