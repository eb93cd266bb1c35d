#include "tools/monitor/first.h"
#include "tools/monitor/pace.h"
#include "tools/overview/overview.h"
#include "tools/overview/peek.h"

#include <stdlib.h>

enum { SHOWN_BYTES_MAX = 64 * 1024 }; /* a larger document stays on the server, and only its _id and size come */

void firsts_init(struct firsts *firsts)
{
  memset(firsts, 0, sizeof *firsts);
  pthread_mutex_init(&firsts->mutex, NULL);
}

/* ---- the port's thread ---- */

/* NULL: none has the type. */
static struct first_slot *slot_of(struct firsts *firsts, const char *type)
{
  for (int i = 0; i < FIRST_SLOTS; i++)
    if (strcmp(firsts->slots[i].type, type) == 0)
      return &firsts->slots[i];
  return NULL;
}

/* For a type that has none. NULL: all are wanted. */
static struct first_slot *slot_take(struct firsts *firsts, const char *type)
{
  struct first_slot *oldest = NULL;
  for (int i = 0; i < FIRST_SLOTS; i++) {
    struct first_slot *slot = &firsts->slots[i];
    if (!slot->wanted && (oldest == NULL || slot->wanted_ms < oldest->wanted_ms))
      oldest = slot;
  }
  if (oldest != NULL) {
    oldest->read_ms = 0;
    snprintf(oldest->type, sizeof oldest->type, "%s", type);
  }
  return oldest;
}

/* Where the server is slow, until it may be asked again. */
static bool slot_fresh(const struct firsts *firsts, const struct first_slot *slot, int64_t now_ms)
{
  return slot->read_ms != 0 && (now_ms - slot->read_ms < FIRST_FRESH_MS || firsts->read_at_ms - now_ms > FIRST_PATIENCE_MS);
}

static bool may_wait(const struct firsts *firsts, int64_t now_ms)
{
  return firsts->waiter_count < FIRST_WAITERS && firsts->read_at_ms - now_ms <= FIRST_PATIENCE_MS;
}

static void slot_want(struct firsts *firsts, struct first_slot *slot, int64_t now_ms, struct MHD_Connection *connection)
{
  slot->wanted = true;
  slot->wanted_ms = now_ms;
  slot->waiters[slot->waiter_count++] = connection;
  firsts->waiter_count++;
  MHD_suspend_connection(connection); /* under the lock: it must not be resumed before */
}

enum first_answer firsts_get(struct firsts *firsts, const char *type, int64_t now_ms, struct MHD_Connection *connection,
                             struct first *first, bool *known)
{
  enum first_answer answer = FIRST_TOO_MANY;
  pthread_mutex_lock(&firsts->mutex);
  struct first_slot *slot = slot_of(firsts, type);
  if (slot != NULL && slot_fresh(firsts, slot, now_ms)) {
    *known = slot->known;
    if (slot->known)
      *first = slot->first;
    answer = FIRST_READY;
  } else if (may_wait(firsts, now_ms) && (slot != NULL || (slot = slot_take(firsts, type)) != NULL)) {
    slot_want(firsts, slot, now_ms, connection);
    answer = FIRST_WAIT;
  }
  pthread_mutex_unlock(&firsts->mutex);
  return answer;
}

/* ---- the reader's thread ---- */

int64_t firsts_read_at(struct firsts *firsts)
{
  int64_t at = INT64_MAX;
  pthread_mutex_lock(&firsts->mutex);
  if (firsts->waiter_count > 0)
    at = firsts->read_at_ms;
  pthread_mutex_unlock(&firsts->mutex);
  return at;
}

static bool slot_wanted(struct firsts *firsts, const struct first_slot *slot)
{
  pthread_mutex_lock(&firsts->mutex);
  bool wanted = slot->wanted;
  pthread_mutex_unlock(&firsts->mutex);
  return wanted;
}

/* Takes the text. NULL: no memory. */
static void text_take(char *text, char *to, size_t size)
{
  snprintf(to, size, "%s", text != NULL ? text : "");
  free(text);
}

static void add_document(void *context, const bson_t *document)
{
  struct first *first = context;
  struct first_document *to = &first->documents[first->count];
  bson_iter_t id, bytes, whole;
  if (first->count == FIRST_DOCUMENTS || !bson_iter_init_find(&id, document, "_id") || !bson_iter_init_find(&bytes, document, "bytes"))
    return;
  *to = (struct first_document){.bytes = bson_iter_as_int64(&bytes)};
  if (BSON_ITER_HOLDS_OID(&id))
    bson_oid_to_string(bson_iter_oid(&id), to->id);
  else
    text_take(overview_element_json(&id, FIRST_ID_BYTES), to->id, sizeof to->id);
  first->count++;
  if (!bson_iter_init_find(&whole, document, "whole") || !BSON_ITER_HOLDS_DOCUMENT(&whole))
    return;
  const uint8_t *data;
  uint32_t length;
  bson_t shown;
  bson_iter_document(&whole, &length, &data);
  if (bson_init_static(&shown, data, length))
    text_take(overview_document_json(&shown, FIRST_JSON_BYTES), to->json, sizeof to->json);
}

static void slot_done(struct firsts *firsts, struct first_slot *slot, const struct first *first, bool known)
{
  pthread_mutex_lock(&firsts->mutex);
  slot->known = known;
  slot->first = *first;
  slot->read_ms = overview_now_ms();
  slot->wanted = false;
  for (int i = 0; i < slot->waiter_count; i++)
    port_resume(firsts->port, slot->waiters[i]);
  firsts->waiter_count -= slot->waiter_count;
  slot->waiter_count = 0;
  pthread_mutex_unlock(&firsts->mutex);
}

/* A wanted slot keeps its type. */
static void slot_read(struct firsts *firsts, struct first_slot *slot, struct lockstore *store)
{
  static struct first first; /* 22 KB, and one thread */
  struct error ignored;
  first.count = 0;
  bool known = overview_peek_brief(store, slot->type, FIRST_DOCUMENTS, SHOWN_BYTES_MAX, add_document, &first, &ignored) == OUTCOME_YES;
  slot_done(firsts, slot, &first, known);
}

/* The next that is wanted; NULL: none. */
static struct first_slot *next_wanted(struct firsts *firsts)
{
  for (int i = 0; i < FIRST_SLOTS; i++) {
    struct first_slot *slot = &firsts->slots[firsts->next];
    firsts->next = (firsts->next + 1) % FIRST_SLOTS;
    if (slot_wanted(firsts, slot))
      return slot;
  }
  return NULL;
}

void firsts_read(struct firsts *firsts, struct lockstore *store, int64_t until_ms)
{
  int64_t begin = overview_now_ms(), now = begin;
  static const struct first none;
  struct first_slot *slot;
  for (int i = 0; i < FIRST_SLOTS && now < until_ms && (slot = next_wanted(firsts)) != NULL; i++) {
    slot_read(firsts, slot, store);
    now = overview_now_ms();
  }
  int64_t pause = pace_first_pause(now - begin);
  pthread_mutex_lock(&firsts->mutex);
  firsts->read_at_ms = now + pause;
  pthread_mutex_unlock(&firsts->mutex);
  while (pause > FIRST_PATIENCE_MS && (slot = next_wanted(firsts)) != NULL)
    slot_done(firsts, slot, &none, false);
}
