#include "tools/overview/overview.h"
#include "lockstore/document.h"
#include "tools/overview/private.h"

#include <stdlib.h>
#include <time.h>

const char *overview_kind_name(enum overview_kind kind)
{
  static const char *const names[OVERVIEW_KINDS] = {"type", "lock", "invalid", "untyped"};
  return names[kind];
}

const char *overview_kind_remark(enum overview_kind kind)
{
  static const char *const remarks[OVERVIEW_KINDS] = {
      [OVERVIEW_INVALID] =
          "no worker takes these documents: this is no valid type, which is 1 to 128 bytes of A-Z a-z 0-9 _ . -, not beginning "
          "with . or -",
      [OVERVIEW_UNTYPED] = "no worker takes these documents: their type is not a string",
  };
  return remarks[kind];
}

int64_t overview_now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- ledgers and locks ---- */

/* A value that is not a string, or holds control characters, is JSON already. */
static struct overview_row *listed_row(struct rows *rows, const char *name)
{
  return strchr("\"{[", name[0]) ? rows_get(rows, name, OVERVIEW_INVALID) : rows_get_name(rows, name, strlen(name));
}

static void add_problem(struct rows *rows, struct overview_row *row, const char *problem)
{
  if (problem == NULL || row->problem != NULL)
    return;
  row->problem = strdup(problem);
  rows->failed |= row->problem == NULL;
}

static void add_ledger(void *context, const char *type, const struct ledger *ledger, const char *problem)
{
  bool being_made = ledger->epoch == 0 && problem == NULL;
  struct overview_row *row = being_made ? NULL : listed_row(context, type);
  if (!row)
    return;
  row->ledger = *ledger;
  row->ledger_malformed = problem != NULL;
  row->ledger.moved &= problem == NULL;
  row->ledger.paused &= !ledger->moved; /* the pause of a type that was moved away stays in its ledger, and nobody can end it */
  add_problem(context, row, problem);
}

static void add_lock(void *context, const char *type, int slot, const struct lock_view *view, const char *problem)
{
  struct overview_row *row = listed_row(context, type);
  (void)slot; /* they come in order */
  if (!row)
    return;
  if (problem) {
    row->lock_malformed = true;
    add_problem(context, row, problem);
    return;
  }
  if (row->holders++ == 0)
    row->lock = *view;
  row->held = true;
}

/* A waiter that died stays in the queue until another removes it. */
static void add_waiter(void *context, const char *type, int place, const struct lock_holder *who, bool counts)
{
  struct rows *rows = context;
  struct overview_row *row = counts ? listed_row(rows, type) : NULL;
  (void)place; /* they come in order */
  if (!row || row->waiting++ >= OVERVIEW_WAITERS_MAX)
    return;
  struct lock_holder *waiters = realloc(row->waiters, (size_t)row->waiting * sizeof *waiters);
  rows->failed |= waiters == NULL;
  if (!waiters) {
    row->waiting--;
    return;
  }
  row->waiters = waiters;
  waiters[row->waiting - 1] = *who;
}

/* ---- all of it ---- */

static enum outcome read_clock(struct overview *overview, struct mongo *mongo, struct error *error)
{
  bson_t *command = BCON_NEW("hello", BCON_INT32(1)), reply;
  int code;
  enum outcome outcome = mongo_command(mongo, "asking MongoDB for its time", command, &reply, &code, error);
  if (outcome == OUTCOME_YES && !document_date(&reply, "localTime", &overview->server_ms)) {
    error_set(error, "asking MongoDB for its time: the reply has none");
    outcome = OUTCOME_UNKNOWN;
  }
  bson_destroy(command);
  bson_destroy(&reply);
  return outcome;
}

static double rate_of(int64_t before, int64_t after, int64_t ms)
{
  return after > before && ms > 0 ? (double)(after - before) * 1000 / (double)ms : 0;
}

/* What the overview before knew, and this one did not read again. */
static void row_carry(struct overview *overview, struct overview_row *row, const struct overview *earlier)
{
  static const struct overview_row nothing = {.rate_in = OVERVIEW_UNKNOWN, .oldest_ms = OVERVIEW_UNKNOWN};
  const struct overview_row *then = overview_find(earlier, row->type);
  if (!then)
    then = &nothing;
  int64_t passed_ms = overview->read_at_ms - earlier->read_at_ms;
  if (then->ledger.epoch > 0 || row->ledger.epoch == 0) { /* one that appears may count what was committed long ago */
    row->rate_out = rate_of(then->ledger.end.seq, row->ledger.end.seq, passed_ms);
    row->rate_messages = rate_of(then->ledger.end.items, row->ledger.end.items, passed_ms);
  }
  row->rate_in = then->rate_in;
  row->counted = earlier->counted_at_ms ? then->counted : OVERVIEW_UNKNOWN;
  row->counted_settled = then->counted_settled;
  row->counted_own = then->counted_own;
  if (overview->by_count && then->waits) {
    row->waits = true;
    row->oldest_seen = then->oldest_seen;
    row->oldest_hash = then->oldest_hash;
    row->oldest_at_ms = then->oldest_at_ms;
    row->oldest_ms = then->oldest_ms < 0 ? OVERVIEW_UNKNOWN : then->oldest_ms + passed_ms;
  }
  if (row->waits && then->waits && then->ledger.end.seq == row->ledger.end.seq)
    row->still_at_ms = then->still_at_ms ? then->still_at_ms : earlier->read_at_ms;
  row->still_ms = row->still_at_ms ? overview->read_at_ms - row->still_at_ms : 0;
}

/* Without the index only a count finds a type that has documents and nothing else. */
static void rows_keep_counted(struct rows *rows, const struct overview *earlier)
{
  for (size_t i = 0; i < earlier->count; i++)
    if (earlier->rows[i].waits)
      (void)rows_get(rows, earlier->rows[i].type, earlier->rows[i].kind);
}

static void overview_carry(struct overview *overview, const struct overview *earlier)
{
  overview->counted_at_ms = earlier->counted_at_ms;
  overview->count_took_ms = earlier->count_took_ms;
  overview->usable = earlier->usable;
  overview->unusable = earlier->unusable;
  for (size_t i = 0; i < overview->count; i++)
    row_carry(overview, &overview->rows[i], earlier);
}

/* A lock's name has a ledger or a lock, but no file and no message, and its holder is not a worker. */
void row_finish(const struct overview *overview, struct overview_row *row)
{
  bool by_lock = row->held ? row->lock.holder.kind == LOCK_BY_TOOL : row->ledger.epoch > 0;
  bool known = overview->queue_known && (!overview->by_count || overview->counted_at_ms) && !row->own_unknown;
  bool file = row->ledger.end.file[0] != '\0';
  if (row->kind == OVERVIEW_TYPE || row->kind == OVERVIEW_LOCK)
    row->kind = known && by_lock && !row->waits && !file && !row->problem && !row->ledger.paused && !row->ledger.own ? OVERVIEW_LOCK
                                                                                                                     : OVERVIEW_TYPE;
  row->own_queued = !row->ledger.own || !known ? OVERVIEW_UNKNOWN
                    : !row->own_waits          ? 0
                    : row->counted > 0         ? row->counted_own
                                               : OVERVIEW_UNKNOWN;
  row->queued = known && !row->waits ? 0 : row->counted > 0 && !row->own_unknown ? row->counted : OVERVIEW_UNKNOWN;
}

static enum outcome read_locks(struct rows *rows, struct lockstore *store, const struct overview_types *types, struct error *error)
{
  const char *only = types->count == 1 ? types->names[0] : NULL;
  enum outcome outcome = ledger_list(store, only, add_ledger, rows, error);
  if (outcome == OUTCOME_YES)
    outcome = lock_list(store, only, add_lock, rows, error);
  return outcome == OUTCOME_YES ? lock_list_waiters(store, only, add_waiter, rows, error) : outcome;
}

enum outcome overview_read(struct overview *overview, struct lockstore *store, const struct overview_types *types,
                           const struct overview *earlier, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  struct rows rows;
  snprintf(overview->db, sizeof overview->db, "%s", mongo_db(mongo));
  overview->usable = OUTCOME_UNKNOWN;
  enum outcome outcome = mongo_hello(mongo, error);
  if (outcome == OUTCOME_YES)
    outcome = read_clock(overview, mongo, error);
  if (outcome != OUTCOME_YES)
    return outcome;
  overview->read_at_ms = overview_now_ms();
  rows_begin(&rows, overview, types);
  outcome = read_locks(&rows, store, types, error);
  enum outcome oldest = outcome == OUTCOME_YES ? queue_read_oldest(&rows, mongo, types, earlier, error) : OUTCOME_NO;
  overview->queue_known = oldest == OUTCOME_YES || oldest == OUTCOME_NO;
  overview->by_count = oldest == OUTCOME_NO;
  if (outcome == OUTCOME_YES && overview->queue_known)
    overview->queue_known = own_read_oldest(&rows, mongo, earlier, error) == OUTCOME_YES;
  if (outcome == OUTCOME_YES && !overview->queue_known)
    overview->queue_error = *error;
  if (overview->by_count && earlier)
    rows_keep_counted(&rows, earlier);
  if (!rows_end(&rows, error))
    return OUTCOME_REFUSED;
  if (earlier && earlier->read_at_ms)
    overview_carry(overview, earlier);
  for (size_t i = 0; i < overview->count; i++)
    row_finish(overview, &overview->rows[i]);
  return outcome;
}

void overview_inspect(struct overview *overview, struct lockstore *store)
{
  overview->usable = lockstore_inspect(store, &overview->unusable);
}

static void row_free(struct overview_row *row)
{
  free(row->problem);
  free(row->waiters);
}

/* No producer can make it so. */
static bool row_is_known(const struct overview_row *row)
{
  return row->ledger.epoch > 0 || row->held || row->waiting > 0 || row->problem != NULL || row->ledger.paused ||
         row->kind == OVERVIEW_UNTYPED;
}

void overview_cut(struct overview *overview, size_t max, struct overview_rest *rest)
{
  size_t known = 0, kept = 0;
  *rest = (struct overview_rest){0};
  if (overview->count <= max)
    return;
  for (size_t i = 0; i < overview->count; i++)
    known += row_is_known(&overview->rows[i]);
  size_t known_left = known < max ? known : max, others_left = max - known_left;
  for (size_t i = 0; i < overview->count; i++) {
    struct overview_row *row = &overview->rows[i];
    size_t *left = row_is_known(row) ? &known_left : &others_left;
    if (*left > 0) {
      --*left;
      overview->rows[kept++] = *row;
      continue;
    }
    rest->rows++;
    if (row->kind == OVERVIEW_INVALID && row->queued > 0)
      rest->unusable += row->queued;
    row_free(row);
  }
  overview->count = kept;
  struct overview_row *less = realloc(overview->rows, (kept > 0 ? kept : 1) * sizeof *less);
  if (less != NULL)
    overview->rows = less;
}

void overview_free(struct overview *overview)
{
  for (size_t i = 0; i < overview->count; i++)
    row_free(&overview->rows[i]);
  free(overview->rows);
  *overview = (struct overview){.count = 0};
}
