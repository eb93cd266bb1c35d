#include "lockstore/wakeup.h"
#include "bson_array.h"
#include "lockstore/document.h"
#include "lockstore/ledger.h"
#include "lockstore/store.h"
#include "type_pattern.h"

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

/* ---- sending ---- */

static enum outcome insert(struct lockstore *store, const char *type, enum wakeup_about about, const struct owner *to, int64_t epoch,
                           const char *why, struct error *error)
{
  bson_t *document = BCON_NEW("type", BCON_UTF8(type), "about", BCON_UTF8(abouts[about]));
  int code;
  if (to)
    BCON_APPEND(document, "to", "[", BCON_BIN(BSON_SUBTYPE_BINARY, to->bytes, ADDRESS_BYTES), "]", "owners", "[",
                BCON_BIN(BSON_SUBTYPE_BINARY, to->bytes, OWNER_BYTES), "]");
  if (epoch > 0)
    BSON_APPEND_INT64(document, "epoch", epoch);
  if (why)
    BSON_APPEND_UTF8(document, "why", why);
  return wakeups_insert(store->mongo, document, &code, error);
}

enum outcome wakeup_send(struct lockstore *store, const char *type, enum wakeup_about about, const struct owner *to, int64_t epoch,
                         struct error *error)
{
  return insert(store, type, about, to, epoch, NULL, error);
}

enum outcome wakeup_send_broken(struct lockstore *store, const char *type, const struct owner *to, const char *why, struct error *error)
{
  char text[WAKEUP_WHY_SIZE];
  snprintf(text, sizeof text, "%s", why);
  document_make_printable(text);
  return insert(store, type, WAKEUP_LOST, to, 0, text, error);
}

/* ---- watching ---- */

struct wakeup_reader {
  struct lockstore *store;
  struct mongo *mongo;
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

static void reply_drop(struct wakeup_reader *reader)
{
  if (reader->has_reply)
    bson_destroy(&reader->reply);
  reader->has_reply = false;
}

/*
 * Gives the session and the connection back. The next client is a new one: one that has known its server may wait for itself for good
 * when that is gone and its name with it (CDRIVER-4666).
 */
static void disconnect(struct wakeup_reader *reader)
{
  reply_drop(reader);
  atomic_store(&reader->cursor, 0);
  if (reader->session)
    mongoc_client_session_destroy(reader->session);
  if (reader->client) {
    mongo_client_leave(reader->mongo, reader->client);
    mongo_client_give(reader->mongo, reader->client);
  }
  reader->session = NULL;
  reader->client = NULL;
  bson_reinit(&reader->opts);
}

static bool connect_session(struct wakeup_reader *reader, struct error *error)
{
  bson_error_t reason = {.message = "no session"};
  disconnect(reader);
  reader->client = mongo_client_take(reader->mongo, "watching for wake-ups", error);
  if (!reader->client)
    return false;
  reader->session = mongoc_client_start_session(reader->client, NULL, &reason);
  if (reader->session && mongoc_client_session_append(reader->session, &reader->opts, &reason))
    return true;
  error_set(error, "watching for wake-ups: %s", reason.message);
  return false;
}

/* A pattern of types as a regular expression: only `.` means something else there. */
static void append_pattern(bson_t *array, const char *key, const char *pattern)
{
  char text[2 * TYPE_BYTES_MAX + 3] = "^", *to = text + 1;
  for (const char *at = pattern; *at; at++) {
    if (*at == '.')
      *to++ = '\\';
    if (*at == '*')
      *to++ = '.';
    *to++ = *at;
  }
  strcpy(to, "$");
  bson_append_regex(array, key, -1, text, "");
}

/* Those for me; and of those for all, the ones of these types. */
static void filter_make(bson_t *filter, const struct address *me, const char *const *types, size_t type_count)
{
  bson_t any, all, among, array;
  char key[24];
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(filter, "$or", &any);
  BCON_APPEND(&any, "0", "{", "to", BCON_BIN(BSON_SUBTYPE_BINARY, me->bytes, ADDRESS_BYTES), "}");
  BSON_APPEND_DOCUMENT_BEGIN(&any, "1", &all);
  BCON_APPEND(&all, "to", "{", "$exists", BCON_BOOL(false), "}");
  BSON_APPEND_DOCUMENT_BEGIN(&all, "type", &among);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&among, "$in", &array);
  for (size_t i = 0; i < type_count; i++) {
    snprintf(key, sizeof key, "%zu", i);
    if (type_pattern_is_plain(types[i]))
      BSON_APPEND_UTF8(&array, key, types[i]);
    else
      append_pattern(&array, key, types[i]);
  }
  bson_append_array_end(&among, &array);
  bson_append_document_end(&all, &among);
  bson_append_document_end(&any, &all);
  bson_append_array_end(filter, &any);
}

struct wakeup_reader *wakeup_reader_open(struct lockstore *store, const struct lockstore_options *options, const char *const *types,
                                         size_t type_count, struct error *error)
{
  struct wakeup_reader *reader = aligned_zeros(_Alignof(struct wakeup_reader), sizeof *reader);
  if (!reader) {
    error_set(error, "out of memory");
    return NULL;
  }
  struct lockstore_options mine = *options;
  mine.connections_max = 1;
  reader->store = store;
  reader->await_ms = options->await_ms;
  bson_init(&reader->filter);
  bson_init(&reader->opts);
  filter_make(&reader->filter, &store->address, types, type_count);
  reader->mongo = mongo_open(&mine, error);
  if (reader->mongo)
    return reader;
  wakeup_reader_close(reader);
  return NULL;
}

void wakeup_reader_close(struct wakeup_reader *reader)
{
  if (!reader)
    return;
  if (reader->mongo) {
    disconnect(reader);
    mongo_close(reader->mongo);
  }
  bson_destroy(&reader->filter);
  bson_destroy(&reader->opts);
  free(reader);
}

/* The first batch is what was there before: it is dropped. A cursor of 0: the collection is missing, or empty. */
static enum outcome find(struct wakeup_reader *reader, int *code, struct error *error)
{
  bson_t *command = BCON_NEW("find", WAKEUPS, "filter", BCON_DOCUMENT(&reader->filter), "tailable", BCON_BOOL(true), "awaitData",
                             BCON_BOOL(true), "batchSize", BCON_INT32(HISTORY_MAX));
  bson_t reply;
  mongo_append_max_time(reader->mongo, command);
  enum outcome outcome =
      mongo_client_command(reader->mongo, reader->client, "watching for wake-ups", command, &reader->opts, &reply, code, error);
  struct mongo_batch batch = {.cursor = 0};
  if (outcome == OUTCOME_YES)
    mongo_reply_batch(&reply, &batch);
  atomic_store(&reader->cursor, batch.cursor);
  bson_destroy(&reply);
  bson_destroy(command);
  return outcome;
}

/* What is not there is made, and what is not capped and pawl's own is made so: then once more. */
static enum outcome find_or_make(struct wakeup_reader *reader, int *code, struct error *error)
{
  enum outcome outcome = find(reader, code, error);
  if (outcome == OUTCOME_UNKNOWN && *code == CODE_BAD_VALUE) {
    outcome = wakeups_convert_own(reader->mongo, code, error);
    if (outcome == OUTCOME_YES)
      outcome = find(reader, code, error);
  }
  if (outcome == OUTCOME_YES && atomic_load(&reader->cursor) == 0) {
    outcome = wakeups_make(reader->mongo, code, error);
    if (outcome == OUTCOME_YES)
      outcome = find(reader, code, error);
  }
  return outcome;
}

enum outcome wakeup_reader_begin(struct wakeup_reader *reader, struct error *error)
{
  int code;
  if (mongo_avoids_wakeups(reader->store->mongo)) {
    wakeups_explain_foreign(reader->mongo, error);
    return OUTCOME_REFUSED;
  }
  if (!connect_session(reader, error))
    return OUTCOME_UNKNOWN;
  enum outcome outcome = find_or_make(reader, &code, error);
  if (outcome == OUTCOME_YES && atomic_load(&reader->cursor) != 0)
    return OUTCOME_YES;
  if (outcome == OUTCOME_YES)
    error_set(error, "watching for wake-ups: the collection " WAKEUPS " was made, and is gone again");
  else if (code == CODE_UNAUTHORIZED || code == CODE_BAD_VALUE || code == CODE_VIEW)
    outcome = OUTCOME_REFUSED;
  disconnect(reader);
  return outcome == OUTCOME_REFUSED ? OUTCOME_REFUSED : OUTCOME_UNKNOWN;
}

/* The first of `owners` that is of this process. Whether it is that of the acquisition in hand, its reader must see. */
static bool parse_owner(const struct wakeup_reader *reader, const bson_t *document, struct owner *owner)
{
  bson_iter_t at, item;
  if (!bson_iter_init_find(&at, document, "owners") || !BSON_ITER_HOLDS_ARRAY(&at) || !bson_iter_recurse(&at, &item))
    return false;
  while (bson_iter_next(&item)) {
    bson_subtype_t subtype = BSON_SUBTYPE_USER;
    uint32_t length = 0;
    const uint8_t *bytes = NULL;
    if (BSON_ITER_HOLDS_BINARY(&item))
      bson_iter_binary(&item, &subtype, &length, &bytes);
    if (subtype != BSON_SUBTYPE_BINARY || length != OWNER_BYTES || memcmp(bytes, reader->store->address.bytes, ADDRESS_BYTES) != 0)
      continue;
    memcpy(owner->bytes, bytes, OWNER_BYTES);
    return true;
  }
  return false;
}

/* False: not one of ours. */
static bool parse(struct wakeup_reader *reader, const bson_t *document, struct wakeup *wakeup)
{
  char about[16];
  *wakeup = (struct wakeup){.epoch = 0};
  if (!document_text(document, "type", wakeup->type, sizeof wakeup->type) || !document_text(document, "about", about, sizeof about))
    return false;
  int i = 0;
  while (i < ABOUTS && strcmp(about, abouts[i]) != 0)
    i++;
  if (i == ABOUTS)
    return false;
  wakeup->about = (enum wakeup_about)i;
  if (wakeup->about != WAKEUP_MESSAGE && !parse_owner(reader, document, &wakeup->owner))
    return false;
  if (wakeup->about == WAKEUP_LOST)
    (void)document_text(document, "why", wakeup->why, sizeof wakeup->why);
  /* Anybody may write it: one that no ledger can be fenced from is not taken. */
  if (wakeup->about != WAKEUP_LOCK || !document_int64(document, "epoch", &wakeup->epoch) || wakeup->epoch < 0 ||
      wakeup->epoch > LEDGER_EPOCH_MAX)
    wakeup->epoch = 0;
  return true;
}

/* The next one of the reply in hand; false: it has no more. */
static bool reply_next(struct wakeup_reader *reader, struct wakeup *wakeup)
{
  bson_t document;
  while (reader->has_reply && mongo_batch_next(&reader->batch, &document))
    if (parse(reader, &document, wakeup))
      return true;
  reply_drop(reader);
  return false;
}

static enum outcome get_more(struct wakeup_reader *reader, int64_t await_ms, struct error *error)
{
  bson_t *command = BCON_NEW("getMore", BCON_INT64(atomic_load(&reader->cursor)), "collection", WAKEUPS, "maxTimeMS",
                             BCON_INT64(await_ms < reader->await_ms ? await_ms : reader->await_ms));
  int code;
  enum outcome outcome =
      mongo_client_command(reader->mongo, reader->client, "waiting for wake-ups", command, &reader->opts, &reader->reply, &code, error);
  reader->has_reply = true;
  bson_destroy(command);
  if (outcome != OUTCOME_YES)
    return OUTCOME_UNKNOWN;
  if (mongo_reply_batch(&reader->reply, &reader->batch) && reader->batch.cursor != 0)
    return OUTCOME_YES;
  error_set(error, "waiting for wake-ups: the server has ended the cursor");
  return OUTCOME_UNKNOWN;
}

enum outcome wakeup_reader_next(struct wakeup_reader *reader, int64_t await_ms, struct wakeup *wakeup, struct error *error)
{
  if (reply_next(reader, wakeup))
    return OUTCOME_YES;
  if (atomic_load(&reader->cursor) == 0) {
    error_set(error, "waiting for wake-ups: not begun");
    return OUTCOME_UNKNOWN;
  }
  if (get_more(reader, await_ms, error) != OUTCOME_YES) {
    disconnect(reader);
    mongo_forget(reader->store->mongo);
    return OUTCOME_UNKNOWN;
  }
  return reply_next(reader, wakeup) ? OUTCOME_YES : OUTCOME_NO;
}
