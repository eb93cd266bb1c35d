/* How the types that patterns find are spread among the workers: worker/spread.h decides, this does it. */
#include "worker/clock.h"
#include "worker/log.h"
#include "worker/loop_private.h"

#include <stddef.h>

enum {
  GIVES_MS = 1000,  /* from one time to the next; a look that a wake-up hurries comes earlier */
  WAITED_MS = 1000, /* for a look, when the process ends */
};

/* What was given to another process is left to it. */
static const struct aside_pause given_pause = {.ms = 2000, .firm = true};

/* Also one that has stopped, or hangs: otherwise a process whose types all do would ask for more without end. */
static bool is_held(const struct type_context *served)
{
  return (!served->leaves && !served->placeless) || loop_is_hung(served);
}

int64_t loop_held_count(const struct loop *loop)
{
  int64_t count = 0;
  for (size_t i = loop->options->type_count; i < loop->context_count; i++)
    count += is_held(loop->contexts[i]);
  return count;
}

static int64_t stopped_count(const struct loop *loop)
{
  int64_t count = 0;
  for (size_t i = loop->options->type_count; i < loop->context_count; i++)
    count += loop_is_hung(loop->contexts[i]) || (is_held(loop->contexts[i]) && loop->contexts[i]->consumer.core.state == STATE_STOPPED);
  return count;
}

bool loop_others_first(struct loop *loop, int64_t free_since_ms, int64_t now_ms)
{
  struct finder *finder = loop->finder;
  struct spread_take take = {.mine = loop_held_count(loop), .taken_ms = finder->begun_ms, .free_since_ms = free_since_ms};
  int64_t until_ms = spread_take_ms(&take, now_ms, finder->look.row.group, finder->rows, finder->row_count);
  finder->wait_until_ms = until_ms > now_ms ? until_ms : 0;
  return until_ms > now_ms;
}

/* To those that ask for some. */
void loop_give_types(struct loop *loop)
{
  struct finder *finder = loop->finder;
  const struct address *me = lockstore_address(loop->options->performer.store);
  int64_t given = 0, now_ms = clock_boot_ms();
  if (now_ms - finder->given_ms < GIVES_MS)
    return;
  for (size_t i = 0; i < finder->row_count; i++) {
    const struct worker_row *row = &finder->rows[i];
    if (!spread_asks(row, finder->look.row.group) || memcmp(&row->asked, me, sizeof *me) != 0)
      continue;
    bool older = memcmp(&row->id, &finder->given_to, sizeof row->id) == 0 && now_ms - row->age_ms < finder->given_ms;
    int64_t asker = row->held + (older ? finder->given : 0), before = given;
    for (; spread_gives(loop_held_count(loop), asker, given); given++, asker++) {
      struct type_context *served = loop_longest_held(loop);
      if (served == NULL)
        break;
      loop_context_leave(served, given_pause);
    }
    if (given > before) {
      finder->given = given - before + (older ? finder->given : 0);
      finder->given_ms = now_ms;
      finder->given_to = row->id;
    }
  }
}

void loop_rows_take(struct loop *loop)
{
  struct finder *finder = loop->finder;
  struct worker_row *rows = finder->rows;
  struct error text;
  finder->rows = finder->look.rows;
  finder->look.rows = rows;
  finder->row_count = finder->look.row_count;
  bool unspread = finder->look.unspread.text[0] != '\0';
  if (unspread && !finder->logged_unspread) {
    error_set(&text, "types are not spread among the workers: %.900s", finder->look.unspread.text);
    loop_say(CONFIG_LOG_WARN, "spread", text.text);
  } else if (!unspread && finder->logged_unspread) {
    loop_say(CONFIG_LOG_INFO, "spread", "types are spread among the workers again");
  }
  finder->logged_unspread = unspread;
}

static void leave_work(struct job *job)
{
  const struct finder *finder = (struct finder *)((char *)job - offsetof(struct finder, leave));
  struct error ignored; /* the row is not counted for long */
  if (workers_remove(finder->look.store, &ignored) != OUTCOME_YES)
    return;
}

/* So that the others do not wait for it. A look that takes long is not waited for: the row ends by its age. */
int64_t loop_row_leave(struct loop *loop)
{
  struct finder *finder = loop->finder;
  int64_t until_ms = finder->look.last ? 0 : finder->look.started_ms + WAITED_MS;
  if (finder->own_row != ROW_STAYS)
    return INT64_MAX;
  if (finder->look.running && clock_boot_ms() < until_ms)
    return until_ms;
  finder->own_row = finder->look.running || finder->look.written_ms == 0 ? ROW_GONE : ROW_GOES;
  finder->leave.work = leave_work;
  if (finder->own_row == ROW_GOES)
    executor_submit(finder->executor, &finder->leave);
  return INT64_MAX;
}

void loop_row_fill(const struct loop *loop, struct worker_row *row)
{
  const struct finder *finder = loop->finder;
  row->held = loop_held_count(loop);
  row->stopped = stopped_count(loop);
  row->max = (int64_t)loop->options->found_max;
  row->lease_ms = reload_config(loop->reload)->lease_ms;
  const struct worker_row *asked = spread_ask(row->held, row->max, row->group, finder->rows, finder->row_count);
  row->asks = asked != NULL && clock_boot_ms() >= finder->unfit_until_ms;
  if (row->asks)
    row->asked = asked->id;
}
