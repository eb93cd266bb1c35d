#include "lock/private.h"
#include "lock/seam.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LEASE_MS = 30000, LEASE_MS_MIN = 1000, LEASE_MS_MAX = 3600000, RETRY_MS = 100, RETRY_MS_MIN = 1, RETRY_MS_MAX = 3600000 };

/* ---- results ---- */

const char *pawl_result_name(enum pawl_result result)
{
  static const char *const names[] = {[PAWL_OK] = "PAWL_OK",
                                      [PAWL_BUSY] = "PAWL_BUSY",
                                      [PAWL_TIMEOUT] = "PAWL_TIMEOUT",
                                      [PAWL_CANCELLED] = "PAWL_CANCELLED",
                                      [PAWL_LOST] = "PAWL_LOST",
                                      [PAWL_FENCED] = "PAWL_FENCED",
                                      [PAWL_UNKNOWN] = "PAWL_UNKNOWN",
                                      [PAWL_HELD] = "PAWL_HELD",
                                      [PAWL_MISMATCH] = "PAWL_MISMATCH",
                                      [PAWL_REFUSED] = "PAWL_REFUSED",
                                      [PAWL_NOTHING] = "PAWL_NOTHING",
                                      [PAWL_FOREIGN] = "PAWL_FOREIGN",
                                      [PAWL_MALFORMED] = "PAWL_MALFORMED",
                                      [PAWL_LOGIN] = "PAWL_LOGIN",
                                      [PAWL_DENIED] = "PAWL_DENIED",
                                      [PAWL_FORKED] = "PAWL_FORKED",
                                      [PAWL_INVALID] = "PAWL_INVALID",
                                      [PAWL_MEMORY] = "PAWL_MEMORY"};
  return (size_t)result < sizeof names / sizeof *names ? names[result] : "no result";
}

enum pawl_result result_set(struct pawl_error *error, enum pawl_result result, const char *format, ...)
{
  va_list arguments;
  if (error == NULL)
    return result;
  error->result = result;
  va_start(arguments, format);
  vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
  return result;
}

enum pawl_result result_of_error(const struct error *from, bool refused)
{
  if (refused)
    return PAWL_REFUSED;
  return from->reason == ERROR_LOGIN ? PAWL_LOGIN : from->reason == ERROR_RIGHT ? PAWL_DENIED : PAWL_UNKNOWN;
}

/* ---- fork ---- */

/* A page that the kernel empties in a child. NULL: it cannot. */
static const _Atomic bool *mark_new(void)
{
  size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
  _Atomic bool *mark = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mark == MAP_FAILED)
    return NULL;
  if (madvise(mark, bytes, MADV_WIPEONFORK) != 0) {
    munmap(mark, bytes);
    return NULL;
  }
  atomic_store(mark, true);
  return mark;
}

static void mark_free(const _Atomic bool *mark)
{
  if (mark != NULL)
    munmap((void *)mark, (size_t)sysconf(_SC_PAGESIZE));
}

bool handle_is_mine(const struct pawl *pawl, struct pawl_error *error)
{
  if (atomic_load_explicit(pawl->mine, memory_order_relaxed))
    return true;
  (void)result_set(error, PAWL_FORKED, "this handle belongs to the parent process: open another one");
  return false;
}

/* ---- open and close ---- */

static bool between(int64_t value, int64_t least, int64_t most, const char *name, struct pawl_error *error)
{
  if (value >= least && value <= most)
    return true;
  (void)result_set(error, PAWL_INVALID, "pawl_open: %s is %lld, expected %lld to %lld", name, (long long)value, (long long)least,
                   (long long)most);
  return false;
}

static bool options_apply(struct pawl *pawl, const struct pawl_options *options, struct pawl_error *error)
{
  pawl->lease_ms = options->lease_ms != 0 ? options->lease_ms : LEASE_MS;
  pawl->retry_ms = options->retry_ms != 0 ? options->retry_ms : RETRY_MS;
  if (options->program != NULL && strlen(options->program) >= sizeof pawl->holder.program) {
    (void)result_set(error, PAWL_INVALID, "pawl_open: program has %zu bytes, expected at most %zu", strlen(options->program),
                     sizeof pawl->holder.program - 1);
    return false;
  }
  lock_holder_self(&pawl->holder, LOCK_BY_TOOL, options->program != NULL ? options->program : "libpawl-lock");
  return between(pawl->lease_ms, LEASE_MS_MIN, LEASE_MS_MAX, "lease_ms", error) &&
         between(pawl->retry_ms, RETRY_MS_MIN, RETRY_MS_MAX, "retry_ms", error);
}

enum pawl_result handle_new(const struct pawl_options *given, struct pawl_options *all, struct pawl **made, struct pawl_error *error)
{
  *all = (struct pawl_options){.size = sizeof *all};
  *made = NULL;
  if (given == NULL || given->size == 0 || given->size > sizeof *all)
    return result_set(error, PAWL_INVALID, "pawl_open: options.size is %zu, expected %zu", given != NULL ? given->size : 0, sizeof *all);
  memcpy(all, given, given->size);
  struct pawl *pawl = calloc(1, sizeof *pawl);
  if (pawl == NULL || (pawl->mine = mark_new()) == NULL) {
    free(pawl);
    return result_set(error, PAWL_MEMORY, "pawl_open: no memory");
  }
  pthread_mutex_init(&pawl->mutex, NULL);
  LIST_INIT(&pawl->holds);
  LIST_INIT(&pawl->sets);
  TAILQ_INIT(&pawl->told);
  pawl->fd = -1;
  pawl->renewal = (struct job){.run = renewal_run, .due_ms = INT64_MAX};
  if (!options_apply(pawl, all, error)) {
    handle_free(pawl);
    return PAWL_INVALID;
  }
  *made = pawl;
  return PAWL_OK;
}

/* After seam_stop: nothing runs. */
void handle_free(struct pawl *pawl)
{
  struct set *set;
  while ((set = LIST_FIRST(&pawl->sets)) != NULL) {
    LIST_REMOVE(set, all);
    jobs_drop(&pawl->jobs, &set->job);
    free(set);
  }
  while (!LIST_EMPTY(&pawl->holds))
    hold_free(pawl, LIST_FIRST(&pawl->holds));
  for (size_t i = 0; i < CHUNKS_MAX; i++)
    free(atomic_load(&pawl->chunks[i]));
  jobs_free(&pawl->jobs);
  if (pawl->fd >= 0)
    close(pawl->fd);
  seam_free(pawl);
  if (pawl->store != NULL)
    lockstore_close(pawl->store);
  pthread_mutex_destroy(&pawl->mutex);
  mark_free(pawl->mine);
  free(pawl);
}

/* Ends what waits, and begins to release what is held. */
static void all_end(struct pawl *pawl)
{
  struct set *set;
  struct hold *hold;
  struct pawl_error closed;
  (void)result_set(&closed, PAWL_CANCELLED, "the handle is being closed");
  LIST_FOREACH (set, &pawl->sets, all)
    set_finish(pawl, set, PAWL_CANCELLED, &closed);
  LIST_FOREACH (hold, &pawl->holds, all)
    if (!hold->over && (hold->state == HOLD_HELD || hold->state == HOLD_LOST))
      hold_release(pawl, hold);
}

static bool all_over(const struct pawl *pawl)
{
  const struct hold *hold;
  LIST_FOREACH (hold, &pawl->holds, all)
    if (!hold->over)
      return false;
  return LIST_EMPTY(&pawl->sets);
}

void pawl_close(struct pawl *pawl)
{
  if (pawl == NULL || !handle_is_mine(pawl, NULL))
    return;
  pthread_mutex_lock(&pawl->mutex);
  int64_t until_ms = seam_now_ms(pawl) + RELEASE_MS;
  all_end(pawl);
  while (!all_over(pawl) && seam_now_ms(pawl) < until_ms)
    seam_wait(pawl, until_ms);
  seam_stop(pawl);
  pthread_mutex_unlock(&pawl->mutex);
  handle_free(pawl);
}
