#include "lock/pawl/lock_memory.h"
#include "lock/seam.h"
#include "lockstore/lockstore_memory.h"

#include <stdlib.h>
#include <sys/eventfd.h>

/*
 * In memory: no threads. Jobs run while time passes, in the order in which they are due, whichever handle they belong to: in
 * pawl_memory_advance, and in a call that waits.
 */

enum { BOOT_MS = 1000000 };             /* the boot-time clock at the beginning */
#define EPOCH_MS INT64_C(1700000000000) /* and the server's */

struct seam {
  struct pawl_memory *memory;
  struct pawl *pawl;
  LIST_ENTRY(seam) all;
  bool frozen;
  int64_t slow_ms;
  struct wakeup_reader *reader;
};

struct pawl_memory {
  struct memory_server *server;
  int64_t now_ms;
  LIST_HEAD(, seam) handles;
};

/* ---- time ---- */

int64_t seam_now_ms(const struct pawl *pawl)
{
  return pawl->seam->memory->now_ms;
}

int seam_fd_new(void)
{
  return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void seam_fd_set(const struct pawl *pawl, int fd, int64_t at_ms)
{
  if (at_ms <= seam_now_ms(pawl))
    eventfd_write(fd, 1);
}

/* What a kernel's timers would do: they do not freeze with their process. */
static void time_set(struct pawl_memory *memory, int64_t now_ms)
{
  struct seam *seam;
  if (now_ms <= memory->now_ms)
    return;
  memory->now_ms = now_ms;
  memory_server_set_now(memory->server, EPOCH_MS + now_ms);
  LIST_FOREACH (seam, &memory->handles, all) {
    const struct hold *hold;
    LIST_FOREACH (hold, &seam->pawl->holds, all)
      if (hold->fd >= 0 && hold->state == HOLD_HELD)
        seam_fd_set(seam->pawl, hold->fd, hold_until_ms(seam->pawl, hold));
  }
}

/* ---- jobs ---- */

/* `caller`: whose mutex this thread has; NULL: no handle's. */
static void lock_other(struct seam *seam, const struct pawl *caller)
{
  if (seam->pawl != caller)
    pthread_mutex_lock(&seam->pawl->mutex);
}

static void unlock_other(struct seam *seam, const struct pawl *caller)
{
  if (seam->pawl != caller)
    pthread_mutex_unlock(&seam->pawl->mutex);
}

static bool reader_begin(struct seam *seam)
{
  struct error ignored;
  if (seam->reader == NULL)
    seam->reader = wakeup_reader_open(seam->pawl->store, NULL, NULL, 0, &ignored);
  return seam->reader != NULL && wakeup_reader_begin(seam->reader, &ignored) == OUTCOME_YES;
}

static void listen(struct seam *seam)
{
  struct wakeup wakeup;
  struct error ignored;
  enum outcome outcome;
  if (!handle_listens(seam->pawl)) {
    handle_listening(seam->pawl, false);
    return;
  }
  if (!seam->pawl->listening) {
    if (reader_begin(seam))
      handle_listening(seam->pawl, true);
    return;
  }
  while ((outcome = wakeup_reader_next(seam->reader, 0, &wakeup, &ignored)) == OUTCOME_YES)
    handle_notified(seam->pawl, &wakeup);
  if (outcome == OUTCOME_UNKNOWN)
    handle_listening(seam->pawl, false);
}

static void listen_all(struct pawl_memory *memory, const struct pawl *caller)
{
  struct seam *seam;
  LIST_FOREACH (seam, &memory->handles, all) {
    if (seam->frozen)
      continue;
    lock_other(seam, caller);
    listen(seam);
    unlock_other(seam, caller);
  }
}

static struct job *earliest(struct pawl_memory *memory, struct seam **of)
{
  struct seam *seam;
  struct job *best = NULL;
  LIST_FOREACH (seam, &memory->handles, all) {
    struct job *jobs[] = {jobs_first(&seam->pawl->jobs), &seam->pawl->renewal};
    for (int i = 0; i < 2 && !seam->frozen; i++)
      if (jobs[i] != NULL && (best == NULL || jobs[i]->due_ms < best->due_ms)) {
        best = jobs[i];
        *of = seam;
      }
  }
  return best;
}

/* Runs what is due next, by until_ms at the latest; false: nothing is, and it is until_ms. */
static bool pass(struct pawl_memory *memory, const struct pawl *caller, int64_t until_ms)
{
  struct seam *seam = NULL;
  struct job *job = earliest(memory, &seam);
  if (job == NULL || job->due_ms > until_ms || job->due_ms == INT64_MAX) {
    time_set(memory, until_ms);
    return false;
  }
  time_set(memory, job->due_ms);
  lock_other(seam, caller);
  jobs_drop(&seam->pawl->jobs, job);
  job->run(seam->pawl, job);
  unlock_other(seam, caller);
  listen_all(memory, caller);
  return true;
}

bool seam_start(struct pawl *pawl)
{
  (void)pawl;
  return true;
}

void seam_job_put(struct pawl *pawl)
{
  (void)pawl;
}

void seam_changed(struct pawl *pawl)
{
  (void)pawl;
}

void seam_wait(struct pawl *pawl, int64_t until_ms)
{
  if (!pass(pawl->seam->memory, pawl, until_ms) && until_ms == INT64_MAX)
    abort(); /* nothing will ever end this wait: a deadlock of the test */
}

void seam_stop(struct pawl *pawl)
{
  LIST_REMOVE(pawl->seam, all);
  wakeup_reader_close(pawl->seam->reader);
}

void seam_free(struct pawl *pawl)
{
  free(pawl->seam);
}

/* ---- the API ---- */

struct pawl_memory *pawl_memory_new(void)
{
  struct pawl_memory *memory = calloc(1, sizeof *memory);
  if (memory == NULL)
    return NULL;
  LIST_INIT(&memory->handles);
  memory->server = memory_server_new();
  time_set(memory, BOOT_MS);
  return memory;
}

void pawl_memory_free(struct pawl_memory *memory)
{
  if (memory == NULL)
    return;
  memory_server_free(memory->server);
  free(memory);
}

enum pawl_result pawl_open(const struct pawl_options *options, struct pawl **pawl, struct pawl_error *error)
{
  (void)options;
  *pawl = NULL;
  return result_set(error, PAWL_INVALID, "pawl_open: this is the library in memory: pawl_memory_open opens its handles");
}

enum pawl_result pawl_memory_open(struct pawl_memory *memory, const struct pawl_options *given, struct pawl **made,
                                  struct pawl_error *error)
{
  struct pawl *pawl;
  struct pawl_options ignored;
  enum pawl_result result = handle_new(given, &ignored, &pawl, error);
  *made = NULL;
  if (result != PAWL_OK)
    return result;
  pawl->seam = calloc(1, sizeof *pawl->seam);
  if (pawl->seam == NULL) {
    handle_free(pawl);
    return result_set(error, PAWL_MEMORY, "pawl_memory_open: no memory");
  }
  *pawl->seam = (struct seam){.memory = memory, .pawl = pawl};
  pawl->store = lockstore_memory_open(memory->server);
  LIST_INSERT_HEAD(&memory->handles, pawl->seam, all);
  *made = pawl;
  return PAWL_OK;
}

void pawl_memory_advance(struct pawl_memory *memory, int64_t ms)
{
  int64_t until_ms = memory->now_ms + ms;
  while (pass(memory, NULL, until_ms)) {
  }
}

/* Its wake-ups are lost: those that come meanwhile are more than the twin keeps. */
void pawl_memory_freeze(struct pawl *pawl, bool frozen)
{
  pawl->seam->frozen = frozen;
  if (!frozen)
    return;
  wakeup_reader_close(pawl->seam->reader);
  pawl->seam->reader = NULL;
  handle_listening(pawl, false);
}

void pawl_memory_cut_off(struct pawl *pawl, bool away)
{
  lockstore_memory_set_away(pawl->store, away);
}

static void answer_late(void *context)
{
  const struct seam *seam = context;
  time_set(seam->memory, seam->memory->now_ms + seam->slow_ms);
}

void pawl_memory_slow(struct pawl *pawl, int64_t ms)
{
  pawl->seam->slow_ms = ms;
  lockstore_memory_on_answer(pawl->store, answer_late, pawl->seam);
}

void pawl_memory_lose_answers(struct pawl *pawl, int skip, int count, bool done)
{
  lockstore_memory_fail_after(pawl->store, skip, count, done);
}

static void bson_of(const uint8_t *bytes, bson_t *document)
{
  uint32_t length = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
  if (!bson_init_static(document, bytes, length))
    abort(); /* a mistake of the test */
}

void pawl_memory_document_put(struct pawl_memory *memory, const char *collection, const uint8_t *document)
{
  bson_t put;
  bson_of(document, &put);
  memory_server_put_document(memory->server, collection, &put);
}

const uint8_t *pawl_memory_document(struct pawl_memory *memory, const char *collection, const uint8_t *filter)
{
  bson_t which;
  bson_of(filter, &which);
  const bson_t *found = memory_server_document(memory->server, collection, &which);
  return found != NULL ? bson_get_data(found) : NULL;
}
