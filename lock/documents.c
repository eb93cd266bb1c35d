#include "lock/private.h"
#include "lock/seam.h"

#include <stdlib.h>

/* ---- arguments ---- */

/* The bytes say how long they are. */
static bool bson_valid(const uint8_t *bytes, bson_t *document)
{
  if (bytes == NULL)
    return false;
  uint32_t length = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
  return length >= 5 && length <= INT32_MAX && bson_init_static(document, bytes, length) &&
         bson_validate(document, BSON_VALIDATE_NONE, NULL);
}

static bool field_valid(const char *field)
{
  size_t length = strlen(field);
  return length > 0 && length <= 200 && field[0] != '.' && field[length - 1] != '.' && strstr(field, "..") == NULL &&
         strchr(field, '$') == NULL && strcmp(field, "_id") != 0 && strncmp(field, "_id.", 4) != 0;
}

static bool collection_valid(const char *collection)
{
  return collection != NULL && collection[0] != 0 && strlen(collection) <= 200 && strchr(collection, '$') == NULL &&
         strncmp(collection, "system.", 7) != 0;
}

/* All in one piece: the strings follow the struct. NULL: `error` says what is wrong. */
static struct document_want *want_new(const struct pawl_document *given, struct pawl_error *error)
{
  struct pawl_document which = {.size = sizeof which};
  bson_t filter, sort;
  if (given == NULL || given->size == 0 || given->size > sizeof which) {
    (void)result_set(error, PAWL_INVALID, "locking a document: size is %zu, expected %zu", given != NULL ? given->size : 0, sizeof which);
    return NULL;
  }
  memcpy(&which, given, given->size);
  const char *field = which.field != NULL ? which.field : "pawl";
  if (!collection_valid(which.collection) || !field_valid(field)) {
    (void)result_set(error, PAWL_INVALID, "locking a document: collection \"%.100s\", field \"%.100s\", expected names without '$'",
                     which.collection != NULL ? which.collection : "", field);
    return NULL;
  }
  if (!bson_valid(which.filter, &filter) || (which.sort != NULL && !bson_valid(which.sort, &sort))) {
    (void)result_set(error, PAWL_INVALID, "locking a document of %.100s: the filter or the sort is not BSON", which.collection);
    return NULL;
  }
  size_t collection_bytes = strlen(which.collection) + 1, field_bytes = strlen(field) + 1;
  struct document_want *want = aligned_zeros(_Alignof(struct document_want), sizeof *want + collection_bytes + field_bytes);
  if (want == NULL) {
    (void)result_set(error, PAWL_MEMORY, "locking a document: no memory");
    return NULL;
  }
  char *names = (char *)(want + 1);
  want->place.collection = memcpy(names, which.collection, collection_bytes);
  want->place.field = memcpy(names + collection_bytes, field, field_bytes);
  bson_copy_to(&filter, &want->filter);
  want->sorted = which.sort != NULL;
  if (want->sorted)
    bson_copy_to(&sort, &want->sort);
  return want;
}

static enum pawl_result take(struct pawl *pawl, const struct pawl_document *which, const struct pawl_terms *given, bool begun,
                             pawl_hold *hold, struct pawl_error *error)
{
  struct pawl_terms terms;
  struct set *set;
  struct pawl_error invalid = {.result = PAWL_INVALID};
  if (!handle_is_mine(pawl, error))
    return PAWL_FORKED;
  struct document_want *want = terms_valid(given, &terms, &invalid) && hold != NULL ? want_new(which, &invalid) : NULL;
  if (want == NULL)
    return result_set(error, invalid.result, "%s", invalid.text);
  pthread_mutex_lock(&pawl->mutex);
  enum pawl_result result = set_new_document(pawl, want, &terms, begun, hold, &set, error);
  if (result == PAWL_OK && !begun)
    result = set_await(pawl, set, error);
  pthread_mutex_unlock(&pawl->mutex);
  return result;
}

enum pawl_result pawl_document_take(struct pawl *pawl, const struct pawl_document *which, const struct pawl_terms *terms, pawl_hold *hold,
                                    struct pawl_error *error)
{
  return take(pawl, which, terms, false, hold, error);
}

enum pawl_result pawl_document_take_begin(struct pawl *pawl, const struct pawl_document *which, const struct pawl_terms *terms,
                                          pawl_hold *hold, struct pawl_error *error)
{
  return take(pawl, which, terms, true, hold, error);
}

/* ---- with the hold ---- */

static bool has_document(const struct hold *hold)
{
  return hold != NULL && hold->document != NULL && hold->state != HOLD_WAITS;
}

const uint8_t *pawl_document_bytes(const struct pawl *pawl, pawl_hold id)
{
  struct pawl *mine = (struct pawl *)pawl;
  struct hold *hold = hold_lock(mine, id, NULL);
  if (hold == NULL)
    return NULL;
  const uint8_t *bytes = has_document(hold) ? bson_get_data(&hold->document->document) : NULL;
  pthread_mutex_unlock(&mine->mutex);
  return bytes;
}

/* The same field, or one is a part of the other. */
static bool meets(const char *path, const char *field)
{
  size_t length = strlen(field), other = strlen(path), shorter = other < length ? other : length;
  return strncmp(path, field, shorter) == 0 && (path[shorter] == 0 || path[shorter] == '.') &&
         (field[shorter] == 0 || field[shorter] == '.');
}

/* Operators alone, none of which names the lock's field or a part of it. */
static bool update_valid(const bson_t *update, const char *field, const char **what)
{
  bson_iter_t at, of;
  *what = "no operators";
  if (!bson_iter_init(&at, update) || bson_empty(update))
    return false;
  while (bson_iter_next(&at)) {
    *what = "something beside operators";
    if (bson_iter_key(&at)[0] != '$' || !BSON_ITER_HOLDS_DOCUMENT(&at) || !bson_iter_recurse(&at, &of))
      return false;
    *what = "the field of the lock";
    bool renames = strcmp(bson_iter_key(&at), "$rename") == 0; /* the new name is the value */
    while (bson_iter_next(&of))
      if (meets(bson_iter_key(&of), field) || (BSON_ITER_HOLDS_UTF8(&of) && renames && meets(bson_iter_utf8(&of, NULL), field)))
        return false;
  }
  return true;
}

/* With the mutex, which is given up meanwhile. The server decides, by owner and token. */
static enum pawl_result update_send(struct pawl *pawl, struct hold *hold, const bson_t *update, struct pawl_error *error)
{
  const struct document_hold held = {
      .place = hold->document->place, .id = &hold->document->document, .owner = hold->owner, .token = hold->token};
  struct error wrong = {.text = ""};
  hold->pins++;
  pthread_mutex_unlock(&pawl->mutex);
  enum outcome outcome = document_update(pawl->store, &held, update, &wrong);
  pthread_mutex_lock(&pawl->mutex);
  hold->pins--;
  hold_drop(pawl, hold);
  if (outcome == OUTCOME_YES)
    return PAWL_OK;
  if (outcome == OUTCOME_NO)
    return result_set(error, PAWL_LOST, "writing a document: it is not locked by this hold any more; nothing was written");
  return result_set(error, result_of_error(&wrong, outcome == OUTCOME_REFUSED), "%s", wrong.text);
}

enum pawl_result pawl_document_update(struct pawl *pawl, pawl_hold id, const uint8_t *bytes, struct pawl_error *error)
{
  bson_t update;
  const char *what;
  if (!handle_is_mine(pawl, error))
    return PAWL_FORKED;
  struct hold *hold = hold_lock(pawl, id, error);
  if (hold == NULL)
    return PAWL_INVALID;
  enum pawl_result result = PAWL_OK;
  if (!has_document(hold) || !bson_valid(bytes, &update))
    result = result_set(error, PAWL_INVALID, "writing a document: the hold is of no document, or the update is no BSON");
  else if (!update_valid(&update, hold->document->place.field, &what))
    result = result_set(error, PAWL_REFUSED, "writing a document of %s: the update has %s, expected operators such as $set on other fields",
                        hold->name, what);
  if (result == PAWL_OK)
    result = update_send(pawl, hold, &update, error);
  pthread_mutex_unlock(&pawl->mutex);
  return result;
}

static enum pawl_result result_of_outcome(enum outcome outcome, bool there, const struct error *wrong, struct pawl_error *error)
{
  if (outcome == OUTCOME_YES)
    return PAWL_OK;
  if (outcome == OUTCOME_NO && !there)
    return result_set(error, PAWL_NOTHING, "writing with a token: no document matches");
  if (outcome == OUTCOME_NO)
    return result_set(error, PAWL_FENCED, "writing with a token: the document has a higher one; nothing was written");
  return result_set(error, result_of_error(wrong, outcome == OUTCOME_REFUSED), "%s", wrong->text);
}

static enum pawl_result guarded_send(struct pawl *pawl, const struct document_want *want, const bson_t *update, int64_t token,
                                     struct pawl_error *error)
{
  bool there;
  struct error wrong = {.text = ""};
  enum outcome outcome = document_guarded_update(pawl->store, &want->place, &want->filter, update, token, &there, &wrong);
  return result_of_outcome(outcome, there, &wrong, error);
}

enum pawl_result pawl_guarded_update(struct pawl *pawl, const struct pawl_document *which, const uint8_t *bytes, int64_t token,
                                     struct pawl_error *error)
{
  bson_t update;
  const char *what;
  if (!handle_is_mine(pawl, error))
    return PAWL_FORKED;
  if (token <= 0 || !bson_valid(bytes, &update))
    return result_set(error, PAWL_INVALID, "writing with a token: the token is %lld, expected above 0; or the update is no BSON",
                      (long long)token);
  struct pawl_error invalid = {.result = PAWL_INVALID};
  struct document_want *want = want_new(which, &invalid);
  if (want == NULL)
    return result_set(error, invalid.result, "%s", invalid.text);
  enum pawl_result result = PAWL_OK;
  if (!update_valid(&update, want->place.field, &what))
    result =
        result_set(error, PAWL_REFUSED, "writing with a token: the update has %s, expected operators such as $set on other fields", what);
  if (result == PAWL_OK)
    result = guarded_send(pawl, want, &update, token, error);
  document_want_free(want);
  return result;
}
