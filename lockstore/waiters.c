#include "lockstore/waiters.h"

#include <stdlib.h>
#include <time.h>

enum { HANDED_MS_MAX = 3000 }; /* by then each of them has looked by its timer and stands in a row again */

struct handed_row {
  struct handed_row *next;
  char type[TYPE_BYTES_MAX + 1];
  int slot;
  int64_t since_ms;
  struct waiters waiters;
};

static bool same(const struct owner *a, const struct owner *b)
{
  return memcmp(a->bytes, b->bytes, OWNER_BYTES) == 0;
}

bool waiters_have(const struct waiters *waiters, const struct owner *process)
{
  for (int i = 0; i < waiters->count; i++)
    if (same(&waiters->processes[i], process))
      return true;
  return false;
}

void waiters_add(struct waiters *waiters, const struct owner *process)
{
  if (waiters->count < WAITERS_MAX && !waiters_have(waiters, process))
    waiters->processes[waiters->count++] = *process;
}

bool waiters_take_first(struct waiters *waiters, const struct owner *but, struct owner *first)
{
  int at = 0;
  while (at < waiters->count && same(&waiters->processes[at], but))
    at++;
  if (at == waiters->count)
    return false;
  *first = waiters->processes[at];
  waiters->count -= at + 1;
  memmove(waiters->processes, waiters->processes + at + 1, (size_t)waiters->count * sizeof waiters->processes[0]);
  return true;
}

/* ---- handed on ---- */

static int64_t now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void handed_init(struct handed *handed)
{
  pthread_mutex_init(&handed->mutex, NULL);
  handed->rows = NULL;
}

void handed_deinit(struct handed *handed)
{
  while (handed->rows) {
    struct handed_row *row = handed->rows;
    handed->rows = row->next;
    free(row);
  }
  pthread_mutex_destroy(&handed->mutex);
}

/* Unlinked; NULL: there is none. */
static struct handed_row *row_take(struct handed *handed, const char *type, int slot)
{
  for (struct handed_row **at = &handed->rows; *at; at = &(*at)->next) {
    struct handed_row *row = *at;
    if (row->slot != slot || strcmp(row->type, type) != 0)
      continue;
    *at = row->next;
    return row;
  }
  return NULL;
}

static struct handed_row *row_make(const char *type, int slot)
{
  struct handed_row *row = calloc(1, sizeof *row);
  if (!row)
    return NULL; /* the row is lost, which is allowed */
  snprintf(row->type, sizeof row->type, "%s", type);
  row->slot = slot;
  return row;
}

/* Anybody may write wake-ups, and of types that are never taken. */
static void rows_prune(struct handed *handed)
{
  int64_t now = now_ms();
  for (struct handed_row **at = &handed->rows; *at;) {
    struct handed_row *row = *at;
    if (now - row->since_ms < HANDED_MS_MAX) {
      at = &row->next;
      continue;
    }
    *at = row->next;
    free(row);
  }
}

void handed_put(struct handed *handed, const char *type, int slot, const struct waiters *waiters)
{
  if (waiters->count == 0)
    return;
  pthread_mutex_lock(&handed->mutex);
  rows_prune(handed);
  struct handed_row *row = row_take(handed, type, slot);
  if (!row)
    row = row_make(type, slot);
  if (row) {
    for (int i = 0; i < waiters->count; i++)
      waiters_add(&row->waiters, &waiters->processes[i]);
    row->since_ms = now_ms();
    row->next = handed->rows;
    handed->rows = row;
  }
  pthread_mutex_unlock(&handed->mutex);
}

void handed_take(struct handed *handed, const char *type, int slot, struct waiters *waiters)
{
  pthread_mutex_lock(&handed->mutex);
  struct handed_row *row = row_take(handed, type, slot);
  pthread_mutex_unlock(&handed->mutex);
  waiters->count = 0;
  if (row && now_ms() - row->since_ms < HANDED_MS_MAX)
    *waiters = row->waiters;
  free(row);
}
