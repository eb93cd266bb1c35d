#include "lockstore/wakeup.h"
#include "bson_array.h"
#include "lockstore/document.h"
#include "lockstore/store.h"

#include <stdatomic.h>
#include <stdlib.h>

/*
 * The cursor is one that awaits: the server answers when something for this process was inserted, or after await_ms. All its requests
 * are made in one session, as the server wants it.
 */

enum {
  HISTORY_MAX = 100000, /* documents; all that fit */
  CODE_BAD_VALUE = 2,   /* not capped */
  CODE_UNAUTHORIZED = 13,
  CODE_VIEW = 166,
};

static const char *const abouts[] = {[WAKEUP_MESSAGE] = "message", [WAKEUP_LOCK] = "lock", [WAKEUP_LOST] = "lost"};
enum { ABOUTS = sizeof abouts / sizeof *abouts };

/* ---- the row, in documents ---- */

void waiters_append(bson_t *document, const char *field, const struct waiters *waiters)
{
  bson_t array;
  char key[16];
  bson_append_array_unsafe_begin(document, field, -1, &array);
  for (int i = 0; i < waiters->count; i++) {
    snprintf(key, sizeof key, "%d", i);
    bson_append_binary(&array, key, -1, BSON_SUBTYPE_BINARY, waiters->processes[i].bytes, OWNER_BYTES);
  }
  bson_append_array_end(document, &array);
}

void waiters_parse(const bson_t *document, struct waiters *waiters)
{
  bson_iter_t at, item;
  waiters->count = 0;
  if (!bson_iter_init_find(&at, document, "waiters") || !BSON_ITER_HOLDS_ARRAY(&at) || !bson_iter_recurse(&at, &item))
    return;
  while (bson_iter_next(&item)) {
    bson_subtype_t subtype;
    uint32_t length;
    const uint8_t *bytes;
    struct owner process;
    if (!BSON_ITER_HOLDS_BINARY(&item))
      continue;
    bson_iter_binary(&item, &subtype, &length, &bytes);
    if (subtype != BSON_SUBTYPE_BINARY || length != OWNER_BYTES)
      continue;
    memcpy(process.bytes, bytes, OWNER_BYTES);
    waiters_add(waiters, &process);
  }
}

/* ---- sending ---- */

enum outcome wakeup_send(struct lockstore *store, const char *type, enum wakeup_about about, const struct owner *to, struct error *error)
{
  bson_t *document = BCON_NEW("type", BCON_UTF8(type), "about", BCON_UTF8(abouts[about]));
  int code;
  if (to)
    BSON_APPEND_BINARY(document, "to", BSON_SUBTYPE_BINARY, to->bytes, OWNER_BYTES);
  return wakeups_insert(store->mongo, to ? box_of(to).text : WAKEUPS_FOR_ALL, document, &code, error);
}

void waiters_wake(struct lockstore *store, const char *type, int slot, int64_t epoch, struct waiters *waiters)
{
  struct owner first;
  struct error ignored;
  int code;
  if (!waiters_take_first(waiters, &store->process, &first))
    return;
  bson_t *document = BCON_NEW("type", BCON_UTF8(type), "about", BCON_UTF8(abouts[WAKEUP_LOCK]), "slot", BCON_INT32(slot), "to",
                              BCON_BIN(BSON_SUBTYPE_BINARY, first.bytes, OWNER_BYTES));
  waiters_append(document, "waiters", waiters);
  if (epoch > 0)
    BSON_APPEND_INT64(document, "epoch", epoch);
  (void)wakeups_insert(store->mongo, box_of(&first).text, document, &code, &ignored); /* lost: their timers see it */
}

/* ---- watching ---- */

struct watcher {
  struct lockstore *store;
  struct mongo *mongo;
  struct wakeups_name name;
  int64_t await_ms;
  bson_t filter;
  mongoc_client_t *client;
  mongoc_client_session_t *session;
  bson_t opts;            /* the session */
  _Atomic int64_t cursor; /* 0: none */
  bool has_reply;         /* and its documents are read by */
  bson_t reply;
  struct mongo_batch batch;
};

static void reply_drop(struct watcher *watcher)
{
  if (watcher->has_reply)
    bson_destroy(&watcher->reply);
  watcher->has_reply = false;
}

/*
 * Gives the session and the connection back. The next client is a new one: one that has known its server may wait for itself for good
 * when that is gone and its name with it (CDRIVER-4666).
 */
static void disconnect(struct watcher *watcher)
{
  reply_drop(watcher);
  atomic_store(&watcher->cursor, 0);
  if (watcher->session)
    mongoc_client_session_destroy(watcher->session);
  if (watcher->client) {
    mongo_client_leave(watcher->mongo, watcher->client);
    mongo_client_give(watcher->mongo, watcher->client);
  }
  watcher->session = NULL;
  watcher->client = NULL;
  bson_reinit(&watcher->opts);
}

static bool connect_session(struct watcher *watcher, struct error *error)
{
  bson_error_t reason = {.message = "no session"};
  disconnect(watcher);
  watcher->client = mongo_client_take(watcher->mongo, "watching for wake-ups", error);
  if (watcher->client)
    watcher->session = mongoc_client_start_session(watcher->client, NULL, &reason);
  if (watcher->session && mongoc_client_session_append(watcher->session, &watcher->opts, &reason))
    return true;
  error_set(error, "watching for wake-ups: %s", reason.message);
  return false;
}

/* Those for me; and where there are types, of these those for all. In `wakeups` the former are what ends the wait. */
static void filter_make(bson_t *filter, const struct owner *me, const char *const *types, size_t type_count)
{
  bson_t any, all, among, array;
  char key[24];
  if (type_count == 0) {
    BSON_APPEND_BINARY(filter, "to", BSON_SUBTYPE_BINARY, me->bytes, OWNER_BYTES);
    return;
  }
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(filter, "$or", &any);
  BCON_APPEND(&any, "0", "{", "to", BCON_BIN(BSON_SUBTYPE_BINARY, me->bytes, OWNER_BYTES), "}");
  BSON_APPEND_DOCUMENT_BEGIN(&any, "1", &all);
  BCON_APPEND(&all, "to", "{", "$exists", BCON_BOOL(false), "}");
  BSON_APPEND_DOCUMENT_BEGIN(&all, "type", &among);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&among, "$in", &array);
  for (size_t i = 0; i < type_count; i++) {
    snprintf(key, sizeof key, "%zu", i);
    BSON_APPEND_UTF8(&array, key, types[i]);
  }
  bson_append_array_end(&among, &array);
  bson_append_document_end(&all, &among);
  bson_append_document_end(&any, &all);
  bson_append_array_end(filter, &any);
}

static struct watcher *open_on(struct lockstore *store, const struct lockstore_options *options, struct wakeups_name name,
                               const char *const *types, size_t type_count, struct error *error)
{
  struct watcher *watcher = calloc(1, sizeof *watcher);
  if (!watcher) {
    error_set(error, "out of memory");
    return NULL;
  }
  struct lockstore_options mine = *options;
  mine.connections_max = 1;
  watcher->store = store;
  watcher->name = name;
  watcher->await_ms = options->await_ms;
  bson_init(&watcher->filter);
  bson_init(&watcher->opts);
  filter_make(&watcher->filter, &store->process, types, type_count);
  watcher->mongo = mongo_open(&mine, error);
  if (watcher->mongo)
    return watcher;
  watcher_close(watcher);
  return NULL;
}

struct watcher *watcher_open(struct lockstore *store, const struct lockstore_options *options, const char *const *types, size_t type_count,
                             struct error *error)
{
  return open_on(store, options, (struct wakeups_name){WAKEUPS_FOR_ALL}, types, type_count, error);
}

struct watcher *watcher_open_box(struct lockstore *store, const struct lockstore_options *options, struct error *error)
{
  return open_on(store, options, box_of(&store->process), NULL, 0, error);
}

void watcher_close(struct watcher *watcher)
{
  if (!watcher)
    return;
  if (watcher->mongo) {
    disconnect(watcher);
    mongo_close(watcher->mongo);
  }
  bson_destroy(&watcher->filter);
  bson_destroy(&watcher->opts);
  free(watcher);
}

/* The first batch is what was there before: it is dropped. A cursor of 0: the collection is missing, or empty. */
static enum outcome find(struct watcher *watcher, int *code, struct error *error)
{
  bson_t *command = BCON_NEW("find", BCON_UTF8(watcher->name.text), "filter", BCON_DOCUMENT(&watcher->filter), "tailable", BCON_BOOL(true),
                             "awaitData", BCON_BOOL(true), "batchSize", BCON_INT32(HISTORY_MAX));
  bson_t reply;
  mongo_append_max_time(watcher->mongo, command);
  enum outcome outcome =
      mongo_client_command(watcher->mongo, watcher->client, "watching for wake-ups", command, &watcher->opts, &reply, code, error);
  struct mongo_batch batch = {.cursor = 0};
  if (outcome == OUTCOME_YES)
    mongo_reply_batch(&reply, &batch);
  atomic_store(&watcher->cursor, batch.cursor);
  bson_destroy(&reply);
  bson_destroy(command);
  return outcome;
}

/* What is not there is made, and what is not capped and pawl's own is made so: then once more. */
static enum outcome find_or_make(struct watcher *watcher, int *code, struct error *error)
{
  enum outcome outcome = find(watcher, code, error);
  if (outcome == OUTCOME_UNKNOWN && *code == CODE_BAD_VALUE) {
    outcome = wakeups_convert_own(watcher->mongo, watcher->name.text, code, error);
    if (outcome == OUTCOME_YES)
      outcome = find(watcher, code, error);
  }
  if (outcome == OUTCOME_YES && atomic_load(&watcher->cursor) == 0) {
    outcome = wakeups_make(watcher->mongo, watcher->name.text, code, error);
    if (outcome == OUTCOME_YES)
      outcome = find(watcher, code, error);
  }
  return outcome;
}

enum outcome watcher_begin(struct watcher *watcher, struct error *error)
{
  int code;
  if (mongo_avoids(watcher->store->mongo, watcher->name.text)) {
    wakeups_explain_foreign(watcher->mongo, watcher->name.text, error);
    return OUTCOME_REFUSED;
  }
  if (!connect_session(watcher, error))
    return OUTCOME_UNKNOWN;
  enum outcome outcome = find_or_make(watcher, &code, error);
  if (outcome == OUTCOME_YES && atomic_load(&watcher->cursor) != 0)
    return OUTCOME_YES;
  if (outcome == OUTCOME_YES)
    error_set(error, "watching for wake-ups: the collection %s was made, and is gone again", watcher->name.text);
  else if (code == CODE_UNAUTHORIZED || code == CODE_BAD_VALUE || code == CODE_VIEW)
    outcome = OUTCOME_REFUSED;
  disconnect(watcher);
  return outcome == OUTCOME_REFUSED ? OUTCOME_REFUSED : OUTCOME_UNKNOWN;
}

/* False: not one of ours. */
static bool parse(struct watcher *watcher, const bson_t *document, struct wakeup *wakeup)
{
  char about[16];
  int64_t slot = 0;
  struct waiters waiters;
  if (!document_text(document, "type", wakeup->type, sizeof wakeup->type) || !document_text(document, "about", about, sizeof about))
    return false;
  int i = 0;
  while (i < ABOUTS && strcmp(about, abouts[i]) != 0)
    i++;
  if (i == ABOUTS)
    return false;
  wakeup->about = (enum wakeup_about)i;
  if (wakeup->about == WAKEUP_LOCK && (!document_int64(document, "slot", &slot) || (slot >= 0 && slot <= INT32_MAX))) {
    waiters_parse(document, &waiters);
    handed_put(&watcher->store->handed, wakeup->type, (int)slot, &waiters);
  }
  /* Anybody may write it: one that no ledger can be fenced from is not taken. */
  if (wakeup->about != WAKEUP_LOCK || !document_int64(document, "epoch", &wakeup->epoch) || wakeup->epoch < 0 ||
      wakeup->epoch > LEDGER_EPOCH_MAX)
    wakeup->epoch = 0;
  return true;
}

/* The next one of the reply in hand; false: it has no more. */
static bool reply_next(struct watcher *watcher, struct wakeup *wakeup)
{
  bson_t document;
  while (watcher->has_reply && mongo_batch_next(&watcher->batch, &document))
    if (parse(watcher, &document, wakeup))
      return true;
  reply_drop(watcher);
  return false;
}

static enum outcome get_more(struct watcher *watcher, struct error *error)
{
  bson_t *command = BCON_NEW("getMore", BCON_INT64(atomic_load(&watcher->cursor)), "collection", BCON_UTF8(watcher->name.text), "maxTimeMS",
                             BCON_INT64(watcher->await_ms));
  int code;
  enum outcome outcome =
      mongo_client_command(watcher->mongo, watcher->client, "waiting for wake-ups", command, &watcher->opts, &watcher->reply, &code, error);
  watcher->has_reply = true;
  bson_destroy(command);
  if (outcome != OUTCOME_YES)
    return OUTCOME_UNKNOWN;
  if (mongo_reply_batch(&watcher->reply, &watcher->batch) && watcher->batch.cursor != 0)
    return OUTCOME_YES;
  error_set(error, "waiting for wake-ups: the server has ended the cursor");
  return OUTCOME_UNKNOWN;
}

enum outcome watcher_next(struct watcher *watcher, struct wakeup *wakeup, struct error *error)
{
  if (reply_next(watcher, wakeup))
    return OUTCOME_YES;
  if (atomic_load(&watcher->cursor) == 0) {
    error_set(error, "waiting for wake-ups: not begun");
    return OUTCOME_UNKNOWN;
  }
  if (get_more(watcher, error) != OUTCOME_YES) {
    disconnect(watcher);
    mongo_forget(watcher->store->mongo);
    return OUTCOME_UNKNOWN;
  }
  return reply_next(watcher, wakeup) ? OUTCOME_YES : OUTCOME_NO;
}
