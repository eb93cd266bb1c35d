#include "lock/private.h"
#include "lock/seam.h"
#include "lockstore/ledger.h"
#include "lockstore/wait_queue.h"

#include <inttypes.h>
#include <stdlib.h>

/*
 * Removes the documents of unused names, without taking their locks. A process that takes such a name at the same time has moved its
 * ledger, which then stays (ledger_forget); or it finds no ledger, and gets a token above the floor.
 */

struct name {
  struct ledger_name ledger;
  bool has_ledger, has_queue;
  bool used; /* by a process; or it is a type with files, or cannot be used */
};

struct stale { /* a lock document whose lease is over */
  char name[TYPE_BYTES_MAX + 1];
  int slot;
  struct owner owner;
};

struct sweep {
  const char *only; /* NULL: all names */
  struct name *names;
  struct stale *stale;
  size_t count, room, stale_count, stale_room;
  size_t sorted; /* so many of the names, for name_find */
  bool no_memory;
  /* of `only` */
  enum pawl_result refused; /* PAWL_OK: it is not */
  struct error why;         /* refused, or who uses it */
};

static void sweep_free(struct sweep *sweep)
{
  free(sweep->names);
  free(sweep->stale);
}

/* The array with room for one more, or NULL. */
static void *grow(struct sweep *sweep, void *array, size_t count, size_t *room, size_t size)
{
  if (count < *room)
    return array;
  size_t more = *room > 0 ? 2 * *room : 16;
  void *grown = realloc(array, more * size);
  sweep->no_memory = sweep->no_memory || grown == NULL;
  if (grown != NULL)
    *room = more;
  return grown;
}

/* NULL: no memory. */
static struct name *name_add(struct sweep *sweep, const char *type, const struct ledger *ledger)
{
  struct name *names = grow(sweep, sweep->names, sweep->count, &sweep->room, sizeof *names);
  if (names == NULL)
    return NULL;
  sweep->names = names;
  struct name *name = &names[sweep->count++];
  *name = (struct name){.has_ledger = ledger != NULL};
  snprintf(name->ledger.type, sizeof name->ledger.type, "%s", type);
  if (ledger != NULL) {
    name->ledger.epoch = ledger->epoch;
    name->ledger.birth = ledger->birth;
  }
  return name;
}

static int name_compare(const void *a, const void *b)
{
  const struct name *one = a, *other = b;
  return strcmp(one->ledger.type, other->ledger.type);
}

static void names_sort(struct sweep *sweep)
{
  if (sweep->count > 0)
    qsort(sweep->names, sweep->count, sizeof *sweep->names, name_compare);
  sweep->sorted = sweep->count;
}

static struct name *name_find(const struct sweep *sweep, const char *type)
{
  struct name key;
  snprintf(key.ledger.type, sizeof key.ledger.type, "%s", type);
  return sweep->sorted > 0 ? bsearch(&key, sweep->names, sweep->sorted, sizeof *sweep->names, name_compare) : NULL;
}

/* ---- what is there ---- */

static void see_ledger(void *context, const char *type, const struct ledger *ledger, const char *problem)
{
  struct sweep *sweep = context;
  bool is_type = ledger->end.file[0] != '\0' || ledger->end.seq != 0;
  if (problem == NULL && ledger->epoch >= LEDGER_EPOCH_MAX)
    problem = "its epoch is the last that a ledger takes, 2^59: no other name could have one above it";
  struct name *name = name_add(sweep, type, ledger);
  if (name != NULL)
    name->used = problem != NULL || is_type || ledger->own || ledger->paused || !type_name_valid(type);
  if (problem != NULL) {
    sweep->refused = PAWL_MALFORMED;
    error_set(&sweep->why, "forgetting %s: %s", type, problem);
  } else if (is_type) {
    sweep->refused = PAWL_REFUSED;
    error_set(&sweep->why, "%s is a type with files (%s): its ledger knows where they end, and stays", type, ledger->end.file);
  } else if (ledger->own) {
    sweep->refused = PAWL_REFUSED;
    error_set(&sweep->why, "%s is a type with its own collection: its ledger says so, and stays", type);
  } else if (ledger->paused) {
    sweep->refused = PAWL_REFUSED;
    error_set(&sweep->why, "%s is paused by %s, and stays: pawl-status --resume %s ends that", type, ledger->pause.by, type);
  }
}

static void see_lock(void *context, const char *type, int slot, const struct lock_view *view, const char *problem)
{
  struct sweep *sweep = context;
  struct name *name = name_find(sweep, type);
  if (name == NULL && sweep->count > 0 && strcmp(sweep->names[sweep->count - 1].ledger.type, type) == 0)
    name = &sweep->names[sweep->count - 1];
  if (name == NULL) /* its taker died before there was a ledger */
    name = name_add(sweep, type, NULL);
  if (name == NULL)
    return;
  if (problem != NULL || !view->stealable) {
    name->used = true;
    if (problem != NULL)
      sweep->refused = PAWL_FOREIGN;
    if (problem != NULL)
      error_set(&sweep->why, "%s", problem);
    else
      error_set(&sweep->why, "it is held by %s, pid %" PRId64 " (%s)", lock_holder_show(&view->holder).text, view->holder.pid,
                view->holder.program);
    return;
  }
  struct stale *stale = grow(sweep, sweep->stale, sweep->stale_count, &sweep->stale_room, sizeof *stale);
  if (stale == NULL)
    return;
  sweep->stale = stale;
  stale += sweep->stale_count++;
  *stale = (struct stale){.slot = slot, .owner = view->owner};
  snprintf(stale->name, sizeof stale->name, "%s", type);
  name->has_queue = true; /* perhaps an empty one, which nobody lists */
}

static void see_waiter(void *context, const char *type, int place, const struct lock_holder *who, bool counts)
{
  struct name *name = name_find(context, type);
  (void)place, (void)who, (void)counts;
  if (name != NULL)
    name->has_queue = true;
}

static enum outcome see(struct pawl *pawl, struct sweep *sweep, struct error *wrong)
{
  enum outcome outcome = lockstore_prepare(pawl->store, wrong);
  if (outcome == OUTCOME_YES)
    outcome = ledger_list(pawl->store, sweep->only, see_ledger, sweep, wrong);
  if (outcome == OUTCOME_YES && sweep->only != NULL && sweep->count == 0)
    (void)name_add(sweep, sweep->only, NULL);
  names_sort(sweep);
  if (outcome == OUTCOME_YES)
    outcome = lock_list(pawl->store, sweep->only, see_lock, sweep, wrong);
  names_sort(sweep);
  if (outcome == OUTCOME_YES)
    outcome = lock_list_waiters(pawl->store, sweep->only, see_waiter, sweep, wrong);
  return outcome;
}

/* ---- removing it ---- */

static enum outcome remove_stale(struct pawl *pawl, struct sweep *sweep, struct error *wrong)
{
  for (size_t i = 0; i < sweep->stale_count; i++) {
    const struct stale *stale = &sweep->stale[i];
    struct name *name = name_find(sweep, stale->name);
    if (name->used)
      continue;
    enum outcome outcome = lock_steal(pawl->store, stale->name, stale->slot, &stale->owner, wrong);
    if (outcome != OUTCOME_YES && outcome != OUTCOME_NO)
      return outcome;
    if (outcome == OUTCOME_NO) { /* others steal, too */
      name->used = true;
      error_set(&sweep->why, "others were faster");
    }
  }
  return OUTCOME_YES;
}

/* Removes the entries of dead waiters, and then the empty queue. */
static enum outcome remove_queue(struct pawl *pawl, struct name *name, struct error *wrong)
{
  struct lock_view view;
  struct wait_queue queue;
  enum outcome outcome = wait_queue_read(pawl->store, name->ledger.type, 0, &view, &queue, wrong);
  for (int i = 0; (outcome == OUTCOME_YES || outcome == OUTCOME_NO) && i < queue.count && !name->used; i++) {
    name->used = waiter_counts(&queue, &queue.waiters[i]);
    if (!name->used)
      outcome = wait_queue_leave(pawl->store, name->ledger.type, &queue.waiters[i].owner, wrong);
  }
  if ((outcome == OUTCOME_YES || outcome == OUTCOME_NO) && !name->used)
    outcome = wait_queue_remove_empty(pawl->store, name->ledger.type, wrong);
  return outcome == OUTCOME_NO ? OUTCOME_YES : outcome;
}

/* YES: the unused names are removed; *count: how many ledgers. */
static enum outcome sweep_out(struct pawl *pawl, struct sweep *sweep, size_t *count, struct error *wrong)
{
  size_t unused = 0;
  enum outcome outcome = remove_stale(pawl, sweep, wrong);
  for (size_t i = 0; i < sweep->count && outcome == OUTCOME_YES; i++)
    if (sweep->names[i].has_queue && !sweep->names[i].used) {
      outcome = remove_queue(pawl, &sweep->names[i], wrong);
      if (sweep->names[i].used)
        error_set(&sweep->why, "others wait for it");
    }
  if (outcome != OUTCOME_YES)
    return outcome;
  struct ledger_name *names = malloc((sweep->count + 1) * sizeof *names);
  sweep->no_memory = sweep->no_memory || names == NULL;
  for (size_t i = 0; i < sweep->count && names != NULL; i++)
    if (sweep->names[i].has_ledger && !sweep->names[i].used)
      names[unused++] = sweep->names[i].ledger;
  if (names != NULL)
    outcome = ledger_forget(pawl->store, names, unused, count, wrong);
  free(names);
  return outcome;
}

static enum pawl_result sweep_once(struct pawl *pawl, struct sweep *sweep, size_t *count, struct pawl_error *error)
{
  const char *what = sweep->only != NULL ? sweep->only : "names";
  struct error wrong = {.text = ""};
  *count = 0;
  enum outcome outcome = see(pawl, sweep, &wrong);
  if (outcome == OUTCOME_YES && sweep->only != NULL && sweep->refused != PAWL_OK)
    return result_set(error, sweep->refused, "%s", sweep->why.text);
  if (outcome == OUTCOME_YES && !sweep->no_memory)
    outcome = sweep_out(pawl, sweep, count, &wrong);
  if (outcome != OUTCOME_YES)
    return result_set(error, result_of_error(&wrong, outcome == OUTCOME_REFUSED), "forgetting %s: %s", what, wrong.text);
  return sweep->no_memory ? result_set(error, PAWL_MEMORY, "forgetting %s: no memory", what) : PAWL_OK;
}

/* Of one name that was not refused. `again`: an earlier try may have removed it. */
static enum pawl_result judge(const struct sweep *sweep, size_t count, bool again, struct pawl_error *error)
{
  const struct name *name = &sweep->names[0];
  if (name->used)
    return result_set(error, PAWL_BUSY, "%s", sweep->why.text);
  if (name->has_ledger && count == 0)
    return result_set(error, PAWL_BUSY, "others were faster");
  if (!name->has_ledger && sweep->stale_count == 0 && !again)
    return result_set(error, PAWL_NOTHING, "forgetting %s: there is no such lock", sweep->only);
  return PAWL_OK;
}

static enum pawl_result forget_once(struct pawl *pawl, const char *only, bool again, size_t *total, struct pawl_error *error)
{
  struct sweep sweep = {.only = only};
  size_t count = 0;
  enum pawl_result result = sweep_once(pawl, &sweep, &count, error);
  if (result == PAWL_OK && only != NULL)
    result = judge(&sweep, count, again, error);
  *total += count;
  sweep_free(&sweep);
  return result;
}

static void wait_until(struct pawl *pawl, int64_t until_ms)
{
  int64_t next_ms = seam_now_ms(pawl) + pawl->retry_ms;
  pthread_mutex_lock(&pawl->mutex);
  seam_wait(pawl, next_ms < until_ms ? next_ms : until_ms);
  pthread_mutex_unlock(&pawl->mutex);
}

/* Waits for wait_ms where the name is in use, and for RELEASE_MS, from the first failure on, where MongoDB gives no answer. */
static enum pawl_result forget(struct pawl *pawl, const char *only, int64_t wait_ms, size_t *total, struct pawl_error *error)
{
  int64_t begin_ms = seam_now_ms(pawl), busy_until_ms = wait_ms < 0 || wait_ms > INT64_MAX - begin_ms ? INT64_MAX : begin_ms + wait_ms;
  int64_t away_until_ms = INT64_MAX;
  *total = 0;
  for (bool again = false;; again = true) {
    enum pawl_result result = forget_once(pawl, only, again, total, error);
    bool away = result == PAWL_UNKNOWN || result == PAWL_LOGIN;
    int64_t now_ms = seam_now_ms(pawl);
    if (away && away_until_ms == INT64_MAX)
      away_until_ms = now_ms + RELEASE_MS;
    else if (!away)
      away_until_ms = INT64_MAX;
    int64_t until_ms = away ? away_until_ms : busy_until_ms;
    if ((!away && result != PAWL_BUSY) || now_ms >= until_ms)
      return result == PAWL_BUSY && wait_ms != PAWL_NO_WAIT ? PAWL_TIMEOUT : result;
    wait_until(pawl, until_ms);
  }
}

enum pawl_result pawl_forget(struct pawl *pawl, const char *name, int64_t wait_ms, struct pawl_error *error)
{
  size_t count;
  if (!handle_is_mine(pawl, error))
    return PAWL_FORKED;
  if (name == NULL || !type_name_valid(name) || wait_ms < PAWL_FOR_EVER)
    return result_set(error, PAWL_INVALID, "forgetting a lock: no valid name, or no valid time");
  pthread_mutex_lock(&pawl->mutex);
  bool mine = hold_has_name(pawl, name);
  pthread_mutex_unlock(&pawl->mutex);
  if (mine)
    return result_set(error, PAWL_HELD, "forgetting %s: this handle holds it, or waits for it", name);
  return forget(pawl, name, wait_ms, &count, error);
}

enum pawl_result pawl_prune(struct pawl *pawl, size_t *count, struct pawl_error *error)
{
  if (!handle_is_mine(pawl, error))
    return PAWL_FORKED;
  if (count == NULL)
    return result_set(error, PAWL_INVALID, "removing unused names: no place for their number");
  return forget(pawl, NULL, PAWL_NO_WAIT, count, error);
}
