#include "lock/private.h"
#include "lock/seam.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- the end of a set ---- */

static void set_drop(struct pawl *pawl, struct set *set)
{
  if (!set->left || set->awaited || set->runs)
    return;
  LIST_REMOVE(set, all);
  jobs_drop(&pawl->jobs, &set->job);
  pawl->job_count--;
  free(set);
}

static void all_held(struct pawl *pawl, struct set *set)
{
  for (size_t i = 0; i < set->count; i++) {
    struct hold *hold = set->holds[i];
    hold->set = NULL;
    hold->state = HOLD_HELD;
    hold_until_show(pawl, hold);
    if (hold->begun)
      hold_tell(pawl, hold, PAWL_EVENT_HELD);
  }
  set->left = true;
  seam_job_put(pawl); /* it listens from now on */
}

/* Of those that are held the last first. The one in hand ends when nothing of its attempt is left. */
static void back_out(struct pawl *pawl, struct set *set)
{
  for (size_t i = set->at; i-- > 0;) {
    set->holds[i]->result = set->result;
    hold_text(set->holds[i], set->error.text);
    hold_release(pawl, set->holds[i]);
  }
  hold_part(pawl, set->holds[set->at]);
  for (size_t i = set->at + 1; i < set->count; i++)
    hold_end(pawl, set->holds[i], PAWL_EVENT_FAILED, set->result, set->error.text);
  if (!set->runs)
    jobs_put(&pawl->jobs, &set->job, seam_now_ms(pawl));
  seam_job_put(pawl);
}

void set_finish(struct pawl *pawl, struct set *set, enum pawl_result result, const struct pawl_error *error)
{
  if (set->done)
    return;
  set->done = true;
  set->result = result;
  if (error != NULL)
    set->error = *error;
  if (result == PAWL_OK)
    all_held(pawl, set);
  else
    back_out(pawl, set);
  seam_changed(pawl);
}

/* ---- steps ---- */

static struct set *set_of(struct job *job)
{
  return (struct set *)((char *)job - offsetof(struct set, job));
}

static void set_due(struct pawl *pawl, struct set *set, int64_t due_ms)
{
  if (set->woken)
    due_ms = seam_now_ms(pawl);
  if (!set->done && due_ms > set->deadline_ms)
    due_ms = set->deadline_ms;
  jobs_put(&pawl->jobs, &set->job, due_ms);
  seam_job_put(pawl);
}

/* Who holds it, for the text of a failure: the attempt may be in a step when that is wanted. */
static void holder_note(struct set *set)
{
  const struct lock_view *view = &set->attempt.lock.view;
  if (set->attempt.document != NULL)
    error_set(&set->holder, "no document matches that is not locked");
  else if (view->left_ms > 0)
    error_set(&set->holder, "it is held by %s, pid %" PRId64 " (%s)", lock_holder_show(&view->holder).text, view->holder.pid,
              view->holder.program);
  else
    error_set(&set->holder, "others were faster");
}

static void timed_out(struct pawl *pawl, struct set *set)
{
  struct pawl_error error = set->error;
  if (set->holds[set->at]->away) {
    set_finish(pawl, set, error.result, &error);
    return;
  }
  (void)result_set(&error, PAWL_TIMEOUT, "taking %s: the time is over, and %.700s", set->holds[set->at]->name,
                   set->holder.text[0] != 0 ? set->holder.text : "it was never reached");
  set_finish(pawl, set, PAWL_TIMEOUT, &error);
}

/* One of several may be, while the others are waited for. */
static const struct hold *lost_in(const struct pawl *pawl, const struct set *set)
{
  for (size_t i = 0; set->count > 1 && i < set->count; i++)
    if (seam_now_ms(pawl) >= hold_until_ms(pawl, set->holds[i]))
      return set->holds[i];
  return NULL;
}

static void next_name(struct pawl *pawl, struct set *set)
{
  bool tries = set->tries;
  const struct hold *lost = set->at == set->count ? lost_in(pawl, set) : NULL;
  if (lost != NULL) {
    struct pawl_error error;
    (void)result_set(&error, PAWL_LOST, "taking several locks: %s was lost while the others were waited for", lost->name);
    set->at--; /* of the last one nothing but the hold is left to end */
    set_finish(pawl, set, PAWL_LOST, &error);
    return;
  }
  if (set->at == set->count) {
    set_finish(pawl, set, PAWL_OK, NULL);
    return;
  }
  attempt_init(&set->attempt, set->holds[set->at]->name, set->holds[set->at]->slots, set->holds[set->at]->document, &pawl->holder,
               pawl->lease_ms, pawl->retry_ms);
  set->attempt.lock.tries = tries;
  set_due(pawl, set, seam_now_ms(pawl));
}

static void unknown(struct pawl *pawl, struct set *set, int64_t pause_ms, const struct error *error)
{
  struct pawl_error failed;
  (void)result_set(&failed, result_of_error(error, false), "taking %s: %s", set->attempt.name, error->text);
  set->error = failed;
  hold_away(pawl, set->holds[set->at], failed.result, failed.text);
  if (set->tries)
    set_finish(pawl, set, failed.result, &failed);
  else
    set_due(pawl, set, seam_now_ms(pawl) + pause_ms);
}

static void mismatch(const struct set *set, struct pawl_error *error)
{
  const struct attempt *attempt = &set->attempt;
  if (attempt->found_slots > 0)
    (void)result_set(error, PAWL_MISMATCH, "taking %s: it has %d slots, and this program says %d", attempt->name, attempt->found_slots,
                     attempt->slots);
  else
    (void)result_set(error, PAWL_MISMATCH,
                     "taking %s: it is a lock for one holder, or a type of pawl-worker, and this program says %d slots", attempt->name,
                     attempt->slots);
}

/* The user is told once, and by whom it is held. */
static void waits(struct pawl *pawl, struct set *set, int64_t pause_ms)
{
  struct hold *hold = set->holds[set->at];
  struct pawl_error failed;
  holder_note(set);
  (void)result_set(&failed, PAWL_BUSY, "taking %s: %.700s", hold->name, set->holder.text);
  if (set->tries) {
    set_finish(pawl, set, PAWL_BUSY, &failed);
    return;
  }
  if (hold->begun && !hold->waited && (set->attempt.lock.view.left_ms > 0 || hold->document != NULL)) {
    hold_text(hold, failed.text);
    hold_tell(pawl, hold, PAWL_EVENT_WAITS);
    hold->waited = true;
  }
  set_due(pawl, set, seam_now_ms(pawl) + pause_ms);
}

static void stepped(struct pawl *pawl, struct set *set, enum attempt_result result, int64_t pause_ms, const struct error *error)
{
  static const enum pawl_result refusals[] = {
      [ATTEMPT_BY_DATABASE] = PAWL_REFUSED, [ATTEMPT_BY_LOCK] = PAWL_FOREIGN, [ATTEMPT_BY_LEDGER] = PAWL_MALFORMED};
  struct pawl_error failed;
  if (result != ATTEMPT_UNKNOWN && result != ATTEMPT_REFUSED)
    hold_back(pawl, set->holds[set->at]);
  switch (result) {
  case ATTEMPT_HELD:
    if (attempt_return_late(&set->attempt, seam_now_ms(pawl))) {
      set_due(pawl, set, seam_now_ms(pawl));
      return;
    }
    hold_taken(pawl, set->holds[set->at++], &set->attempt, set->longest_ms);
    next_name(pawl, set);
    return;
  case ATTEMPT_WAITS:
    waits(pawl, set, pause_ms);
    return;
  case ATTEMPT_GOES_ON:
    set_due(pawl, set, seam_now_ms(pawl));
    return;
  case ATTEMPT_UNKNOWN:
    unknown(pawl, set, pause_ms, error);
    return;
  case ATTEMPT_MISMATCH:
    mismatch(set, &failed);
    set_finish(pawl, set, PAWL_MISMATCH, &failed);
    return;
  case ATTEMPT_REFUSED:
    (void)result_set(&failed, error->reason == ERROR_RIGHT ? PAWL_DENIED : refusals[set->attempt.refused_by], "taking %s: %s",
                     set->attempt.name, error->text);
    set_finish(pawl, set, failed.result, &failed);
    return;
  case ATTEMPT_LEFT:
    return;
  }
}

/* It is done, and the attempt backs out. */
static void backed_out(struct pawl *pawl, struct set *set, enum attempt_result result, int64_t pause_ms)
{
  if (result != ATTEMPT_LEFT && result != ATTEMPT_REFUSED && result != ATTEMPT_MISMATCH) {
    set_due(pawl, set, seam_now_ms(pawl) + (result == ATTEMPT_UNKNOWN ? pause_ms : 0));
    return;
  }
  set->left = true;
  hold_end(pawl, set->holds[set->at], PAWL_EVENT_FAILED, set->result, set->error.text);
}

/* Without the mutex. */
static enum attempt_result step(struct pawl *pawl, struct set *set, bool prepared, const struct wakeup *woken, int64_t *pause_ms,
                                struct error *error)
{
  enum outcome outcome = prepared ? OUTCOME_YES : lockstore_prepare(pawl->store, error);
  if (outcome == OUTCOME_YES)
    return attempt_step(&set->attempt, pawl->store, woken, seam_now_ms(pawl), pause_ms, error);
  *pause_ms = attempt_pause_ms(&set->attempt, pawl->store);
  set->attempt.refused_by = ATTEMPT_BY_DATABASE;
  return outcome == OUTCOME_REFUSED ? ATTEMPT_REFUSED : ATTEMPT_UNKNOWN;
}

/* Drawn here, and not by the step: so a wake-up finds its set also while that runs. One that named an earlier owner is none. */
static void owner_draw(struct pawl *pawl, struct set *set)
{
  if (set->attempt.lock.drawn)
    return;
  acquire_draw(pawl->store, &set->attempt.lock);
  set->woken = false;
}

static void set_run(struct pawl *pawl, struct job *job)
{
  struct set *set = set_of(job);
  struct error error = {.text = ""};
  int64_t pause_ms = 0;
  if (!set->done && !set->tries && seam_now_ms(pawl) >= set->deadline_ms)
    timed_out(pawl, set);
  bool backs_out = set->done;
  if (backs_out && set->attempt.state != ATTEMPT_LEAVES)
    attempt_leave(&set->attempt);
  owner_draw(pawl, set);
  struct wakeup wakeup = set->wakeup;
  bool woken = set->woken, prepared = lockstore_is_known(pawl->store) || backs_out;
  set->owner = set->attempt.lock.owner;
  set->attempt.lock.listens = pawl->listening;
  set->woken = false;
  set->runs = true;
  jobs_drop(&pawl->jobs, job); /* timed_out has put it */
  pthread_mutex_unlock(&pawl->mutex);
  enum attempt_result result = step(pawl, set, prepared, woken ? &wakeup : NULL, &pause_ms, &error);
  pthread_mutex_lock(&pawl->mutex);
  set->runs = false;
  set->near = set->attempt.lock.near && !set->done;
  if (!set->done)
    stepped(pawl, set, result, pause_ms, &error);
  else if (backs_out)
    backed_out(pawl, set, result, pause_ms);
  else
    set_due(pawl, set, seam_now_ms(pawl)); /* it was ended meanwhile */
  set_drop(pawl, set);
}

/* ---- wake-ups ---- */

bool handle_listens(const struct pawl *pawl)
{
  const struct hold *hold;
  const struct set *set;
  LIST_FOREACH (hold, &pawl->holds, all)
    if (hold->state == HOLD_HELD)
      return true;
  LIST_FOREACH (set, &pawl->sets, all)
    if (set->near)
      return true;
  return false;
}

/* When they begin, one may just have been missed. */
void handle_listening(struct pawl *pawl, bool listening)
{
  struct set *set;
  bool begins = listening && !pawl->listening;
  pawl->listening = listening;
  LIST_FOREACH (set, &pawl->sets, all)
    if (begins && set->near && !set->runs && !set->done)
      set_due(pawl, set, seam_now_ms(pawl));
}

static bool same(const struct owner *a, const struct owner *b)
{
  return memcmp(a, b, sizeof *a) == 0;
}

static void called(struct pawl *pawl, const struct wakeup *wakeup)
{
  struct set *set;
  LIST_FOREACH (set, &pawl->sets, all) {
    if (set->done || !same(&set->owner, &wakeup->owner))
      continue;
    set->woken = true;
    set->wakeup = *wakeup;
    if (!set->runs)
      set_due(pawl, set, seam_now_ms(pawl));
  }
}

/* Its next renewal tells; anybody may have written the wake-up. */
static void warned(struct pawl *pawl, const struct wakeup *wakeup)
{
  struct hold *hold;
  LIST_FOREACH (hold, &pawl->holds, all) {
    if (hold->state != HOLD_HELD || !same(&hold->owner, &wakeup->owner))
      continue;
    hold_warned(pawl, hold, wakeup->why);
    hold->renew_ms = seam_now_ms(pawl);
    renewal_due(pawl, hold->renew_ms);
  }
}

void handle_notified(struct pawl *pawl, const struct wakeup *wakeup)
{
  if (wakeup->about == WAKEUP_LOCK)
    called(pawl, wakeup);
  else if (wakeup->about == WAKEUP_LOST)
    warned(pawl, wakeup);
}

/* ---- the begin of a set ---- */

struct sorted {
  const struct pawl_want *want;
  size_t place; /* in the user's array */
};

static int by_name(const void *a, const void *b)
{
  return strcmp(((const struct sorted *)a)->want->name, ((const struct sorted *)b)->want->name);
}

/* In the order of their names: so two sets never wait for each other. NULL: no memory. */
static struct sorted *sort(const struct pawl_want *wants, size_t count)
{
  struct sorted *sorted = calloc(count, sizeof *sorted);
  for (size_t i = 0; i < count && sorted != NULL; i++)
    sorted[i] = (struct sorted){.want = &wants[i], .place = i};
  if (sorted != NULL)
    qsort(sorted, count, sizeof *sorted, by_name);
  return sorted;
}

/* They were never seen: no event tells of them. */
static void holds_drop(struct pawl *pawl, struct set *set, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    set->holds[i]->begun = false;
    hold_end(pawl, set->holds[i], PAWL_EVENT_FAILED, PAWL_CANCELLED, NULL);
  }
}

static enum pawl_result holds_new(struct pawl *pawl, struct set *set, const struct sorted *sorted, bool begun, pawl_hold *holds,
                                  struct pawl_error *error)
{
  for (size_t i = 0; i < set->count; i++)
    if (hold_has_name(pawl, sorted[i].want->name))
      return result_set(error, PAWL_HELD, "taking %s: this handle holds it, or waits for it, already", sorted[i].want->name);
  for (size_t i = 0; i < set->count; i++) {
    struct hold *hold = set->holds[i] = hold_new(pawl, sorted[i].want->name, sorted[i].want->slots > 1 ? sorted[i].want->slots : 1, NULL);
    if (hold == NULL) {
      holds_drop(pawl, set, i);
      return result_set(error, PAWL_MEMORY, "taking %s: no memory", sorted[i].want->name);
    }
    hold->set = set;
    hold->begun = begun;
    holds[sorted[i].place] = atomic_load(&hold->cell->id);
  }
  return PAWL_OK;
}

static int64_t deadline_ms(const struct pawl *pawl, int64_t wait_ms)
{
  int64_t now_ms = seam_now_ms(pawl);
  return wait_ms <= 0 || wait_ms > INT64_MAX - now_ms ? INT64_MAX : now_ms + wait_ms;
}

/* NULL: no memory, or no thread. */
static struct set *set_make(struct pawl *pawl, size_t count)
{
  struct set *set = calloc(1, sizeof *set + count * sizeof set->holds[0]);
  if (set == NULL || !jobs_reserve(&pawl->jobs, pawl->job_count + 1) || !seam_start(pawl)) {
    free(set);
    return NULL;
  }
  set->count = count;
  pawl->job_count++;
  return set;
}

static void set_begin(struct pawl *pawl, struct set *set, const struct pawl_terms *terms)
{
  set->job.run = set_run;
  set->tries = terms->wait_ms == PAWL_NO_WAIT;
  set->deadline_ms = deadline_ms(pawl, terms->wait_ms);
  set->longest_ms = terms->longest_ms;
  LIST_INSERT_HEAD(&pawl->sets, set, all);
  next_name(pawl, set);
}

enum pawl_result set_new(struct pawl *pawl, const struct pawl_want *wants, size_t count, const struct pawl_terms *terms, bool begun,
                         pawl_hold *holds, struct set **made, struct pawl_error *error)
{
  struct set *set = set_make(pawl, count);
  struct sorted *sorted = sort(wants, count);
  enum pawl_result result = set != NULL && sorted != NULL
                                ? holds_new(pawl, set, sorted, begun, holds, error)
                                : result_set(error, PAWL_MEMORY, "taking %s: no memory, or no thread", wants[0].name);
  free(sorted);
  if (result == PAWL_OK) {
    set_begin(pawl, set, terms);
    *made = set;
    return PAWL_OK;
  }
  pawl->job_count -= set != NULL;
  free(set);
  return result;
}

enum pawl_result set_new_document(struct pawl *pawl, struct document_want *document, const struct pawl_terms *terms, bool begun,
                                  pawl_hold *id, struct set **made, struct pawl_error *error)
{
  struct set *set = set_make(pawl, 1);
  struct hold *hold = set != NULL ? hold_new(pawl, document->place.collection, 1, document) : NULL;
  if (hold == NULL) {
    pawl->job_count -= set != NULL;
    free(set);
    document_want_free(document);
    return result_set(error, PAWL_MEMORY, "locking a document: no memory, or no thread");
  }
  set->holds[0] = hold;
  hold->set = set;
  hold->begun = begun;
  *id = atomic_load(&hold->cell->id);
  set_begin(pawl, set, terms);
  *made = set;
  return PAWL_OK;
}

/* The thread that runs it may be in a request beyond the deadline. */
enum pawl_result set_await(struct pawl *pawl, struct set *set, struct pawl_error *error)
{
  set->awaited = true;
  while (!set->done) {
    seam_wait(pawl, set->deadline_ms);
    if (!set->done && seam_now_ms(pawl) >= set->deadline_ms)
      timed_out(pawl, set);
  }
  enum pawl_result result = set->result;
  if (error != NULL && result != PAWL_OK)
    *error = set->error;
  set->awaited = false;
  set_drop(pawl, set);
  return result;
}
