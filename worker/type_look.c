#include "worker/type_look.h"
#include "lockstore/mutex.h"
#include "worker/clock.h"
#include "worker/perform.h"

#include <stdlib.h>

enum {
  LOOK_MS = 1000,
  LOOK_SHARE = 20, /* or so many times what it took */
  LOOK_MS_MAX = 10000,
  HURRY_SHARE = 4, /* the same, if somebody says that there is something */
  POLLED_MAX = 500,
};

struct look_sink {
  struct type_look *look;
  bool memory;
};

static void note_type(void *context, const char *type)
{
  struct look_sink *sink = context;
  struct type_look *look = sink->look;
  bool wanted = look->last ? type_rules_serve(look->rules, type) : type_rules_find(look->rules, type);
  if (!wanted || look->found.count == TYPE_LOOK_FOUND_MAX || (look->last && type_list_has(look->stopped, type)))
    return;
  sink->memory = sink->memory && type_list_add(&look->found, type);
}

static void note_lock(void *context, const char *type, int slot, const struct lock_view *view, const char *problem)
{
  struct look_sink *sink = context;
  struct type_look *look = sink->look;
  bool mine = problem == NULL && memcmp(view->owner.bytes, lockstore_address(look->store)->bytes, ADDRESS_BYTES) == 0;
  bool held = problem != NULL || !view->stealable;
  if (slot == 0 && held && !mine && type_rules_find(look->rules, type))
    sink->memory = sink->memory && type_list_add(&look->held, type);
}

/* Documents that cannot be taken do not count: the types are polled as the others are. */
static enum outcome poll_found(struct type_look *look)
{
  const char *types[POLLED_MAX];
  for (size_t at = 0; at < look->found.count;) {
    size_t count = 0;
    while (count < POLLED_MAX && at < look->found.count)
      types[count++] = look->found.names[at++];
    enum outcome outcome = perform_last_poll(look->store, types, count, &look->error);
    if (outcome != OUTCOME_NO)
      return outcome;
  }
  look->empty = look->found.count < TYPE_LOOK_FOUND_MAX; /* else there may be more of them */
  return OUTCOME_YES;
}

/* It is advice, so a failure ends nothing. */
static void rows_exchange(struct type_look *look)
{
  enum { CLEAN_MS = 60000 };
  const struct worker_row *now = &look->row, *then = &look->written;
  int64_t now_ms = clock_boot_ms(), passed_ms = now_ms - look->written_ms;
  bool asks_other = now->asks != then->asks || (now->asks && memcmp(&now->asked, &then->asked, sizeof now->asked) != 0);
  bool differs = asks_other || now->held != then->held || now->stopped != then->stopped || now->lease_ms != then->lease_ms;
  bool due = look->written_ms == 0 || passed_ms >= (differs || now->asks ? LOOK_MS / 2 : now->lease_ms / 3),
       clean = now_ms - look->cleaned_ms >= CLEAN_MS;
  enum outcome outcome = OUTCOME_YES;
  look->row_count = 0;
  look->unspread.text[0] = '\0';
  if (due)
    outcome = workers_write(look->store, now, look->host, look->pid, clean, &look->unspread);
  if (due && outcome == OUTCOME_YES) {
    look->written = *now;
    look->written_ms = now_ms;
    look->cleaned_ms = clean ? now_ms : look->cleaned_ms;
  }
  if (outcome == OUTCOME_YES && (now->held > 0 || look->found.count > 0))
    outcome = workers_read(look->store, now->group, look->rows, &look->row_count, &look->unspread);
  if (outcome == OUTCOME_YES)
    look->unspread.text[0] = '\0';
}

static void work(struct job *job)
{
  struct type_look *look = (struct type_look *)job;
  struct look_sink sink = {.look = look, .memory = true};
  look->outcome = lockstore_is_known(look->store) ? OUTCOME_YES : lockstore_prepare(look->store, &look->error);
  if (look->outcome != OUTCOME_YES)
    return;
  look->types.linearizable = look->last;
  enum outcome outcome = queue_types_find(&look->types, note_type, &sink, &look->error);
  if (outcome == OUTCOME_UNKNOWN)
    look->outcome = OUTCOME_UNKNOWN;
  else if (look->last)
    look->outcome = poll_found(look);
  else if (look->found.count > 0 || look->locks)
    look->outcome = lock_list(look->store, NULL, note_lock, &sink, &look->error);
  if (outcome != OUTCOME_UNKNOWN && !look->last)
    rows_exchange(look);
  if (!sink.memory) {
    error_set(&look->error, "looking for types: no memory");
    look->outcome = OUTCOME_UNKNOWN;
  }
  type_list_sort(&look->found);
  type_list_sort(&look->held);
}

bool type_look_init(struct type_look *look, struct lockstore *store, const struct type_rules *rules)
{
  *look = (struct type_look){.job.work = work, .store = store, .rules = rules, .types.store = store, .types.rules = rules};
  type_rules_range(rules, look->types.from, look->types.before);
  look->rows = calloc(WORKER_ROWS_MAX, sizeof *look->rows);
  return look->rows != NULL;
}

int64_t type_look_due_ms(const struct type_look *look)
{
  return look->running ? INT64_MAX : look->next_ms;
}

static int64_t rest_ms(const struct type_look *look, int64_t least, int64_t share)
{
  int64_t rest = look->took_ms * share;
  return rest < least ? least : rest > LOOK_MS_MAX ? LOOK_MS_MAX : rest;
}

void type_look_hurry(struct type_look *look)
{
  int64_t at = look->started_ms + look->took_ms + rest_ms(look, 0, HURRY_SHARE);
  look->hurried = true;
  if (at < look->next_ms)
    look->next_ms = at;
}

void type_look_start(struct type_look *look, bool last, bool locks, const struct type_list *stopped, struct executor *executor)
{
  look->running = true;
  look->hurried = false;
  look->last = last;
  look->locks = locks;
  look->stopped = stopped;
  look->empty = false;
  look->started_ms = clock_boot_ms();
  type_list_clear(&look->found);
  type_list_clear(&look->held);
  executor_submit(executor, &look->job);
}

void type_look_done(struct type_look *look)
{
  int64_t now_ms = clock_boot_ms();
  look->running = false;
  look->took_ms = now_ms - look->started_ms;
  look->next_ms = now_ms + rest_ms(look, LOOK_MS, LOOK_SHARE);
  if (look->hurried) /* while it ran: it may be older */
    type_look_hurry(look);
}
