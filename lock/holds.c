#include "lock/private.h"
#include "lock/seam.h"
#include "lockstore/lease.h"

#include <assert.h>
#include <search.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { RELEASE_PAUSE_MS = 100 };

/* ---- cells ---- */

struct cell *cell_find(const struct pawl *pawl, pawl_hold id)
{
  uint32_t place = (uint32_t)id & ((1u << CELL_BITS) - 1);
  struct cell *chunk = id != 0 ? atomic_load(&pawl->chunks[place / CHUNK_CELLS]) : NULL;
  return chunk != NULL && atomic_load(&chunk[place % CHUNK_CELLS].id) == id ? &chunk[place % CHUNK_CELLS] : NULL;
}

static bool cells_add(struct pawl *pawl)
{
  uint32_t chunk = pawl->cell_count / CHUNK_CELLS;
  struct cell *cells = chunk < CHUNKS_MAX ? calloc(CHUNK_CELLS, sizeof *cells) : NULL;
  if (cells == NULL)
    return false;
  for (uint32_t i = CHUNK_CELLS; i-- > 0;) {
    cells[i].place = pawl->cell_count + i;
    cells[i].next = pawl->free_cells;
    pawl->free_cells = &cells[i];
  }
  pawl->cell_count += CHUNK_CELLS;
  atomic_store(&pawl->chunks[chunk], cells);
  return true;
}

static void cell_take(struct pawl *pawl, struct hold *hold)
{
  struct cell *cell = pawl->free_cells;
  pawl->free_cells = cell->next;
  cell->hold = hold;
  hold->cell = cell;
  atomic_store(&cell->id, ++pawl->last_number << CELL_BITS | cell->place);
}

static void cell_give(struct pawl *pawl, struct cell *cell)
{
  atomic_store(&cell->until_ms, 0);
  atomic_store(&cell->id, 0);
  cell->hold = NULL;
  cell->next = pawl->free_cells;
  pawl->free_cells = cell;
}

/* ---- from begin to end ---- */

static int by_name(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void release_run(struct pawl *pawl, struct job *job);

void document_want_free(struct document_want *document)
{
  if (document == NULL)
    return;
  bson_destroy(&document->filter);
  if (document->sorted)
    bson_destroy(&document->sort);
  if (document->taken)
    bson_destroy(&document->document);
  free(document);
}

struct hold *hold_new(struct pawl *pawl, const char *name, int slots, struct document_want *document)
{
  size_t bytes = strlen(name) + 1;
  if ((pawl->free_cells == NULL && !cells_add(pawl)) || !jobs_reserve(&pawl->jobs, pawl->job_count + 1))
    return NULL;
  struct hold *hold = calloc(1, sizeof *hold + bytes);
  if (hold == NULL)
    return NULL;
  hold->name = memcpy(hold->bytes, name, bytes);
  hold->named = document == NULL;
  if (hold->named && tsearch(&hold->name, &pawl->by_name, by_name) == NULL) {
    free(hold);
    return NULL;
  }
  hold->slots = slots;
  hold->document = document;
  hold->fd = hold->slot = -1;
  hold->job.run = release_run;
  cell_take(pawl, hold);
  LIST_INSERT_HEAD(&pawl->holds, hold, all);
  pawl->job_count++;
  return hold;
}

struct hold *hold_find(const struct pawl *pawl, pawl_hold id)
{
  struct cell *cell = cell_find(pawl, id);
  return cell != NULL && !cell->hold->over ? cell->hold : NULL;
}

bool hold_has_name(const struct pawl *pawl, const char *name)
{
  return tfind(&name, (void *const *)&pawl->by_name, by_name) != NULL;
}

static void name_give(struct pawl *pawl, struct hold *hold)
{
  if (hold->named)
    tdelete(&hold->name, &pawl->by_name, by_name);
  hold->named = false;
}

void hold_text(struct hold *hold, const char *text)
{
  char *copy = text == NULL ? NULL : text != hold->text ? strdup(text) : hold->text;
  if (copy != hold->text)
    free(hold->text);
  hold->text = copy;
}

void hold_free(struct pawl *pawl, struct hold *hold)
{
  name_give(pawl, hold);
  jobs_drop(&pawl->jobs, &hold->job);
  pawl->job_count--;
  LIST_REMOVE(hold, all);
  cell_give(pawl, hold->cell);
  if (hold->fd >= 0)
    close(hold->fd);
  document_want_free(hold->document);
  free(hold->text);
  free(hold->why);
  free(hold);
}

void hold_drop(struct pawl *pawl, struct hold *hold)
{
  if (hold->over && hold->pins == 0 && !hold->awaited && hold->events == 0)
    hold_free(pawl, hold);
}

void hold_end(struct pawl *pawl, struct hold *hold, enum pawl_event_kind kind, enum pawl_result result, const char *text)
{
  name_give(pawl, hold);
  atomic_store(&hold->cell->until_ms, 0);
  hold->over = true;
  hold->set = NULL;
  hold->result = result;
  if (text != NULL)
    hold_text(hold, text);
  hold_untell(pawl, hold, hold->events & ~(1u << PAWL_EVENT_HELD)); /* what became of it is all that matters now */
  if (hold->begun)
    hold_tell(pawl, hold, kind);
  seam_changed(pawl);
  hold_drop(pawl, hold);
}

/* ---- events ---- */

void hold_tell(struct pawl *pawl, struct hold *hold, enum pawl_event_kind kind)
{
  if (pawl->fd < 0)
    return;
  if (hold->events == 0)
    TAILQ_INSERT_TAIL(&pawl->told, hold, told);
  hold->events |= 1u << kind;
  eventfd_write(pawl->fd, 1);
}

void hold_untell(struct pawl *pawl, struct hold *hold, unsigned events)
{
  eventfd_t ignored;
  bool was = hold->events != 0;
  hold->events &= ~events;
  if (was && hold->events == 0)
    TAILQ_REMOVE(&pawl->told, hold, told);
  if (pawl->fd >= 0 && TAILQ_EMPTY(&pawl->told))
    eventfd_read(pawl->fd, &ignored);
}

/* Of away and back the user hears the last one alone: what he has not heard of yet, and is over, need not be told. */
void hold_away(struct pawl *pawl, struct hold *hold, enum pawl_result result, const char *why)
{
  const unsigned back = 1u << PAWL_EVENT_BACK;
  hold_text(hold, why);
  if (!hold->away && hold->events & back)
    hold_untell(pawl, hold, back);
  else if (!hold->away)
    hold_tell(pawl, hold, PAWL_EVENT_AWAY);
  hold->away = result;
}

void hold_back(struct pawl *pawl, struct hold *hold)
{
  const unsigned away = 1u << PAWL_EVENT_AWAY;
  if (!hold->away)
    return;
  hold->away = PAWL_OK;
  if (hold->events & away)
    hold_untell(pawl, hold, away);
  else
    hold_tell(pawl, hold, PAWL_EVENT_BACK);
}

/* ---- the lease ---- */

int64_t hold_until_ms(const struct pawl *pawl, const struct hold *hold)
{
  int64_t until_ms = hold->sent_ms + lease_safe_ms(pawl->lease_ms);
  return until_ms < hold->end_ms ? until_ms : hold->end_ms;
}

void hold_until_show(struct pawl *pawl, struct hold *hold)
{
  atomic_store(&hold->cell->until_ms, hold_until_ms(pawl, hold));
  if (hold->fd >= 0)
    seam_fd_set(pawl, hold->fd, hold_until_ms(pawl, hold));
}

void hold_warned(struct pawl *pawl, struct hold *hold, const char *why)
{
  hold_unwarned(hold);
  hold->warned_ms = seam_now_ms(pawl);
  hold->why = why[0] != 0 ? strdup(why) : NULL;
}

void hold_unwarned(struct hold *hold)
{
  free(hold->why);
  hold->why = NULL;
  hold->warned_ms = 0;
}

void hold_renewed(struct pawl *pawl, struct hold *hold, int64_t sent_ms)
{
  hold->sent_ms = sent_ms;
  hold_back(pawl, hold);
  hold->renew_ms = sent_ms + lease_renew_ms(pawl->lease_ms);
  if (hold->renew_ms > hold->end_ms)
    hold->renew_ms = hold->end_ms;
  if (hold->state == HOLD_HELD)
    hold_until_show(pawl, hold);
  renewal_due(pawl, hold->renew_ms);
}

void hold_taken(struct pawl *pawl, struct hold *hold, const struct attempt *attempt, int64_t longest_ms)
{
  hold->owner = attempt->lock.owner;
  hold->slot = attempt->lock.slot;
  hold->token = attempt->token;
  hold->end_ms = longest_ms > 0 && longest_ms < INT64_MAX - attempt->sent_ms ? attempt->sent_ms + longest_ms : INT64_MAX;
  hold_renewed(pawl, hold, attempt->sent_ms);
}

void hold_lose(struct pawl *pawl, struct hold *hold, enum pawl_reason reason, const char *text)
{
  if (hold->state != HOLD_HELD)
    return;
  hold->state = HOLD_LOST;
  hold->reason = reason;
  if (text != NULL)
    hold_text(hold, text);
  atomic_store(&hold->cell->until_ms, 0);
  if (hold->fd >= 0)
    seam_fd_set(pawl, hold->fd, 0);
  hold_tell(pawl, hold, PAWL_EVENT_LOST);
  seam_changed(pawl);
}

/* ---- releasing ---- */

void hold_part(struct pawl *pawl, struct hold *hold)
{
  name_give(pawl, hold);
  atomic_store(&hold->cell->until_ms, 0);
  if (hold->fd >= 0)
    seam_fd_set(pawl, hold->fd, 0);
  hold->set = NULL;
  hold->state = HOLD_ENDS;
}

void hold_release(struct pawl *pawl, struct hold *hold)
{
  hold_part(pawl, hold);
  if (hold->reason == PAWL_REASON_NONE && hold->result == PAWL_OK)
    hold_text(hold, NULL); /* it was about the take */
  int64_t now_ms = seam_now_ms(pawl), lease_end_ms = hold->sent_ms + pawl->lease_ms;
  hold->until_ms = now_ms + RELEASE_MS < lease_end_ms ? now_ms + RELEASE_MS : lease_end_ms;
  jobs_put(&pawl->jobs, &hold->job, now_ms);
  seam_job_put(pawl);
}

static void released(struct pawl *pawl, struct hold *hold, enum outcome outcome, const struct error *error)
{
  bool answered = outcome == OUTCOME_YES || outcome == OUTCOME_NO;
  if (outcome == OUTCOME_NO && !hold->repeats && hold->reason == PAWL_REASON_NONE) /* a repeated request may have removed it before */
    hold->reason = PAWL_REASON_REMOVED;
  enum pawl_result result = hold->reason != PAWL_REASON_NONE ? PAWL_LOST
                            : answered                       ? PAWL_OK
                                                             : result_of_error(error, outcome == OUTCOME_REFUSED);
  if (hold->result != PAWL_OK) /* the set failed that it belonged to */
    hold_end(pawl, hold, PAWL_EVENT_FAILED, hold->result, NULL);
  else
    hold_end(pawl, hold, PAWL_EVENT_RELEASED, result, result == PAWL_OK || result == PAWL_LOST ? NULL : error->text);
}

/* Without the mutex. The next holder of a mutex is told its epoch, unless that may be another's by now. */
static enum outcome release_send(struct pawl *pawl, const struct hold *hold, bool tells, struct error *error)
{
  struct acquisition lock;
  if (hold->document != NULL) {
    const struct document_hold held = {
        .place = hold->document->place, .id = &hold->document->document, .owner = hold->owner, .token = hold->token};
    return document_release(pawl->store, &held, error);
  }
  acquire_init(&lock, LOCK_BY_TOOL, pawl->lease_ms, pawl->retry_ms);
  lock.owner = hold->owner;
  lock.slots = hold->slots;
  lock.slot = hold->slot;
  lock.drawn = true;
  return acquire_release(pawl->store, hold->name, &lock, tells ? hold->token : 0, error);
}

static void release_run(struct pawl *pawl, struct job *job)
{
  struct hold *hold = (struct hold *)((char *)job - offsetof(struct hold, job));
  struct error error = {.text = ""};
  bool tells = hold->slots == 1 && hold->reason == PAWL_REASON_NONE;
  hold->pins++;
  pthread_mutex_unlock(&pawl->mutex);
  enum outcome outcome = release_send(pawl, hold, tells, &error);
  pthread_mutex_lock(&pawl->mutex);
  hold->pins--;
  if (outcome != OUTCOME_UNKNOWN || seam_now_ms(pawl) + RELEASE_PAUSE_MS >= hold->until_ms) {
    released(pawl, hold, outcome, &error);
    return;
  }
  hold->repeats = true;
  jobs_put(&pawl->jobs, &hold->job, seam_now_ms(pawl) + RELEASE_PAUSE_MS);
}
