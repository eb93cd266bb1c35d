#include "lock/private.h"
#include "lock/seam.h"
#include "lockstore/wait_queue.h"

#include <stdlib.h>
#include <sys/eventfd.h>

enum { WANTS_MAX = 1000 };

/* ---- arguments ---- */

static bool names_valid(const struct pawl_want *wants, size_t count, struct pawl_error *error)
{
  if (wants == NULL || count == 0 || count > WANTS_MAX) {
    (void)result_set(error, PAWL_INVALID, "taking locks: %zu names, expected 1 to %d", wants != NULL ? count : 0, WANTS_MAX);
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    if (wants[i].name == NULL || !type_name_valid(wants[i].name)) {
      (void)result_set(
          error, PAWL_INVALID,
          "taking locks: the name is \"%.200s\", expected 1 to %d bytes of A-Z, a-z, 0-9, '_', '.', '-', the first neither '.' "
          "nor '-'",
          wants[i].name != NULL ? wants[i].name : "", TYPE_BYTES_MAX);
      return false;
    }
    if (wants[i].slots < 0 || wants[i].slots > SLOTS_MAX) {
      (void)result_set(error, PAWL_INVALID, "taking %s: %d slots, expected 0 to %d", wants[i].name, wants[i].slots, SLOTS_MAX);
      return false;
    }
    for (size_t j = 0; j < i; j++)
      if (strcmp(wants[i].name, wants[j].name) == 0) {
        (void)result_set(error, PAWL_INVALID, "taking locks: %s is given twice", wants[i].name);
        return false;
      }
  }
  return true;
}

bool terms_valid(const struct pawl_terms *given, struct pawl_terms *terms, struct pawl_error *error)
{
  *terms = (struct pawl_terms){.size = sizeof *terms};
  if (given == NULL || given->size == 0 || given->size > sizeof *terms) {
    (void)result_set(error, PAWL_INVALID, "taking locks: terms.size is %zu, expected %zu", given != NULL ? given->size : 0, sizeof *terms);
    return false;
  }
  memcpy(terms, given, given->size);
  if (terms->wait_ms >= PAWL_FOR_EVER && terms->longest_ms >= 0)
    return true;
  (void)result_set(error, PAWL_INVALID, "taking locks: wait_ms is %lld and longest_ms %lld, expected none below 0 but PAWL_FOR_EVER",
                   (long long)terms->wait_ms, (long long)terms->longest_ms);
  return false;
}

static bool take_valid(struct pawl *pawl, const struct pawl_want *wants, size_t count, const struct pawl_terms *given,
                       struct pawl_terms *terms, pawl_hold *holds, struct pawl_error *error, enum pawl_result *result)
{
  *result = PAWL_FORKED;
  if (!handle_is_mine(pawl, error))
    return false;
  *result = PAWL_INVALID;
  if (!names_valid(wants, count, error) || !terms_valid(given, terms, error))
    return false;
  if (holds != NULL)
    return true;
  (void)result_set(error, PAWL_INVALID, "taking locks: no place for the holds");
  return false;
}

/* ---- taking ---- */

static enum pawl_result take(struct pawl *pawl, const struct pawl_want *wants, size_t count, const struct pawl_terms *given, bool begun,
                             pawl_hold *holds, struct pawl_error *error)
{
  enum pawl_result result;
  struct pawl_terms terms;
  struct set *set;
  if (!take_valid(pawl, wants, count, given, &terms, holds, error, &result))
    return result;
  pthread_mutex_lock(&pawl->mutex);
  result = set_new(pawl, wants, count, &terms, begun, holds, &set, error);
  if (result == PAWL_OK && !begun)
    result = set_await(pawl, set, error);
  pthread_mutex_unlock(&pawl->mutex);
  return result;
}

enum pawl_result pawl_take_all(struct pawl *pawl, const struct pawl_want *wants, size_t count, const struct pawl_terms *terms,
                               pawl_hold *holds, struct pawl_error *error)
{
  return take(pawl, wants, count, terms, false, holds, error);
}

enum pawl_result pawl_take_begin(struct pawl *pawl, const struct pawl_want *wants, size_t count, const struct pawl_terms *terms,
                                 pawl_hold *holds, struct pawl_error *error)
{
  return take(pawl, wants, count, terms, true, holds, error);
}

enum pawl_result pawl_take(struct pawl *pawl, const char *name, int64_t wait_ms, pawl_hold *hold, struct pawl_error *error)
{
  const struct pawl_want want = {.name = name};
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = wait_ms};
  return pawl_take_all(pawl, &want, 1, &terms, hold, error);
}

/* ---- holding ---- */

int64_t pawl_left_ms(const struct pawl *pawl, pawl_hold hold)
{
  if (!handle_is_mine(pawl, NULL))
    return 0;
  const struct cell *cell = cell_find(pawl, hold);
  int64_t until_ms = cell != NULL ? atomic_load(&cell->until_ms) : 0;
  if (until_ms == 0 || atomic_load(&cell->id) != hold) /* it may have become another's meanwhile */
    return 0;
  int64_t left_ms = until_ms - seam_now_ms(pawl);
  return left_ms > 0 ? left_ms : 0;
}

struct hold *hold_lock(struct pawl *pawl, pawl_hold id, struct pawl_error *error)
{
  if (!handle_is_mine(pawl, error))
    return NULL;
  pthread_mutex_lock(&pawl->mutex);
  struct hold *hold = hold_find(pawl, id);
  if (hold != NULL && hold->state != HOLD_ENDS)
    return hold;
  pthread_mutex_unlock(&pawl->mutex);
  (void)result_set(error, PAWL_INVALID, "there is no hold %llu of this handle", (unsigned long long)id);
  return NULL;
}

int64_t pawl_token(const struct pawl *pawl, pawl_hold id)
{
  struct pawl *mine = (struct pawl *)pawl;
  struct hold *hold = hold_lock(mine, id, NULL);
  if (hold == NULL)
    return 0;
  int64_t token = hold->state == HOLD_WAITS ? 0 : hold->token;
  pthread_mutex_unlock(&mine->mutex);
  return token;
}

int pawl_slot(const struct pawl *pawl, pawl_hold id)
{
  struct pawl *mine = (struct pawl *)pawl;
  struct hold *hold = hold_lock(mine, id, NULL);
  if (hold == NULL)
    return -1;
  int slot = hold->state == HOLD_WAITS ? -1 : hold->slot;
  pthread_mutex_unlock(&mine->mutex);
  return slot;
}

int pawl_hold_fd(struct pawl *pawl, pawl_hold id)
{
  struct hold *hold = hold_lock(pawl, id, NULL);
  if (hold == NULL)
    return -1;
  if (hold->fd < 0 && (hold->fd = seam_fd_new()) >= 0 && hold->state != HOLD_WAITS)
    seam_fd_set(pawl, hold->fd, hold->state == HOLD_HELD ? hold_until_ms(pawl, hold) : 0);
  int fd = hold->fd;
  pthread_mutex_unlock(&pawl->mutex);
  return fd;
}

static const char *reason_text(enum pawl_reason reason)
{
  static const char *const texts[] = {
      [PAWL_REASON_NONE] = "it is held",
      [PAWL_REASON_EXPIRED] = "it was not renewed in time: this process, or its machine, stood still",
      [PAWL_REASON_AWAY] = "it was not renewed in time: MongoDB gave no answer",
      [PAWL_REASON_STOLEN] = "its lease ended, and another has taken it",
      [PAWL_REASON_REMOVED] = "its document is gone",
      [PAWL_REASON_BROKEN] = "it was broken",
      [PAWL_REASON_OVER] = "its longest time is over",
      [PAWL_REASON_FORKED] = "it is the parent process's",
  };
  return texts[reason];
}

static void reason_show(const struct hold *hold, enum pawl_reason reason, struct pawl_error *error)
{
  const char *more = reason == PAWL_REASON_AWAY ? hold->text : reason == PAWL_REASON_BROKEN ? hold->why : NULL;
  (void)result_set(error, reason == PAWL_REASON_NONE ? PAWL_OK : PAWL_LOST, "%s: %s%s%.700s", hold->name, reason_text(reason),
                   more != NULL ? ": " : "", more != NULL ? more : "");
}

/* The clock may know before the next renewal does. */
static enum pawl_reason reason_of(const struct pawl *pawl, const struct hold *hold)
{
  if (hold->state != HOLD_HELD || seam_now_ms(pawl) < hold_until_ms(pawl, hold))
    return hold->reason;
  return seam_now_ms(pawl) >= hold->end_ms ? PAWL_REASON_OVER : hold->away ? PAWL_REASON_AWAY : PAWL_REASON_EXPIRED;
}

enum pawl_reason pawl_reason(const struct pawl *pawl, pawl_hold id, struct pawl_error *error)
{
  struct pawl *mine = (struct pawl *)pawl;
  if (!handle_is_mine(pawl, error))
    return PAWL_REASON_FORKED;
  struct hold *hold = hold_lock(mine, id, error);
  if (hold == NULL)
    return PAWL_REASON_NONE;
  enum pawl_reason reason = reason_of(pawl, hold);
  reason_show(hold, reason, error);
  pthread_mutex_unlock(&mine->mutex);
  return reason;
}

/* ---- releasing ---- */

static void cancel(struct pawl *pawl, struct hold *hold)
{
  struct pawl_error cancelled;
  (void)result_set(&cancelled, PAWL_CANCELLED, "taking %s: it was cancelled", hold->name);
  set_finish(pawl, hold->set, PAWL_CANCELLED, &cancelled);
}

static enum pawl_result release_await(struct pawl *pawl, struct hold *hold, struct pawl_error *error)
{
  int64_t until_ms = seam_now_ms(pawl) + RELEASE_MS;
  hold->awaited = true;
  hold->begun = false; /* this call tells how it ends */
  hold_release(pawl, hold);
  while (!hold->over && seam_now_ms(pawl) < until_ms)
    seam_wait(pawl, until_ms);
  enum pawl_result result = hold->over ? hold->result : hold->reason != PAWL_REASON_NONE ? PAWL_LOST : PAWL_UNKNOWN;
  if (result == PAWL_LOST)
    reason_show(hold, hold->reason != PAWL_REASON_NONE ? hold->reason : PAWL_REASON_REMOVED, error);
  else if (result != PAWL_OK)
    (void)result_set(error, result, "releasing %s: %.800s", hold->name, hold->text != NULL ? hold->text : "no answer");
  hold->awaited = false;
  hold_drop(pawl, hold);
  return result;
}

enum pawl_result pawl_release(struct pawl *pawl, pawl_hold id, struct pawl_error *error)
{
  if (!handle_is_mine(pawl, error))
    return PAWL_FORKED;
  struct hold *hold = hold_lock(pawl, id, error);
  enum pawl_result result = PAWL_OK;
  if (hold == NULL)
    return PAWL_INVALID;
  if (hold->state == HOLD_WAITS)
    cancel(pawl, hold);
  else
    result = release_await(pawl, hold, error);
  pthread_mutex_unlock(&pawl->mutex);
  return result;
}

enum pawl_result pawl_release_begin(struct pawl *pawl, pawl_hold id, struct pawl_error *error)
{
  if (!handle_is_mine(pawl, error))
    return PAWL_FORKED;
  struct hold *hold = hold_lock(pawl, id, error);
  if (hold == NULL)
    return PAWL_INVALID;
  if (hold->state == HOLD_WAITS) {
    cancel(pawl, hold);
  } else {
    hold->begun = true;
    hold_release(pawl, hold);
  }
  pthread_mutex_unlock(&pawl->mutex);
  return PAWL_OK;
}

/* ---- events ---- */

int pawl_fd(struct pawl *pawl)
{
  if (!handle_is_mine(pawl, NULL))
    return -1;
  pthread_mutex_lock(&pawl->mutex);
  if (pawl->fd < 0)
    pawl->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  int fd = pawl->fd;
  pthread_mutex_unlock(&pawl->mutex);
  return fd;
}

static void event_fill(struct pawl_event *event, const struct hold *hold, enum pawl_event_kind kind)
{
  event->kind = kind;
  event->hold = atomic_load(&hold->cell->id);
  bool ends = kind == PAWL_EVENT_FAILED || kind == PAWL_EVENT_RELEASED;
  event->result = ends ? hold->result : kind == PAWL_EVENT_LOST ? PAWL_LOST : kind == PAWL_EVENT_AWAY ? hold->away : PAWL_OK;
  event->reason = ends || kind == PAWL_EVENT_LOST ? hold->reason : PAWL_REASON_NONE;
  if (event->reason != PAWL_REASON_NONE)
    reason_show(hold, hold->reason, &event->error);
  else if (event->result != PAWL_OK || kind == PAWL_EVENT_WAITS || kind == PAWL_EVENT_AWAY)
    (void)result_set(&event->error, event->result, "%s", hold->text != NULL ? hold->text : pawl_result_name(event->result));
}

bool pawl_next(struct pawl *pawl, struct pawl_event *given)
{
  struct pawl_event event = {.size = given->size};
  if (!handle_is_mine(pawl, NULL))
    return false;
  pthread_mutex_lock(&pawl->mutex);
  struct hold *hold = TAILQ_FIRST(&pawl->told);
  if (hold != NULL) {
    unsigned bit = hold->events & -hold->events;
    event_fill(&event, hold, (enum pawl_event_kind)__builtin_ctz(bit));
    hold_untell(pawl, hold, bit);
    hold_drop(pawl, hold);
  }
  pthread_mutex_unlock(&pawl->mutex);
  if (hold != NULL)
    memcpy(given, &event, given->size < sizeof event ? given->size : sizeof event);
  return hold != NULL;
}
