#include "consumer_watch.h"
#include "consumer_edges.h"

#include <stdlib.h>

static bool runs(const struct rig *rig, enum activity activity)
{
  return rig->slots[activity].running;
}

static bool deletes(const struct rig *rig)
{
  for (int i = ACTIVITY_DELETE; i <= ACTIVITY_DELETE_LAST; i++)
    if (rig->slots[i].running)
      return true;
  return false;
}

/* Searches the loads that are committed and not yet deleted. */
static struct rig_load *load_find(struct rig *rig, const struct load *load)
{
  for (int i = rig->watch.loads_deleted; i < rig->watch.loads_committed; i++)
    if (rig->watch.loads[i].load == load)
      return &rig->watch.loads[i];
  rig_assert(rig, !"a load that is known to be committed");
  return NULL;
}

static bool alive(const struct rig *rig)
{
  return rig->watch.locked && !rig->watch.lost && !rig->watch.fenced && rig->moment.now_ms < rig->watch.deadline_ms;
}

static bool same_owner(const struct owner *a, const struct owner *b)
{
  return memcmp(a, b, sizeof *a) == 0;
}

static bool same_end(const struct committed *a, const struct committed *b)
{
  return strcmp(a->file, b->file) == 0 && a->length == b->length && a->tail == b->tail && a->link == b->link && a->seq == b->seq;
}

static void epoch_over(struct rig_watch *watch)
{
  watch->epoch = 0;
  watch->before_clean = watch->before_vouched = watch->fenced = watch->failed = watch->spent = false;
  watch->place = PLACE_UNASKED;
  watch->vouches = watch->may_append = false;
  watch->appended = watch->wrote = watch->closed = watch->unnamed = watch->clean_sent = false;
  watch->pending = watch->pending_segment = false;
  watch->loads_read = watch->loads_committed = watch->loads_deleted = 0;
}

/* ---- which actions may start ---- */

static void started_take(struct rig *rig, const struct action *action)
{
  struct rig_watch *watch = &rig->watch;
  rig_assert(rig, watch->checked);
  rig_assert(rig, !watch->locked || watch->unlock_tried);
  rig_assert(rig, !runs(rig, ACTIVITY_READ) && !deletes(rig));
  rig_assert(rig, !same_owner(&action->owner, &watch->owner)); /* a new owner for every acquisition */
  rig_assert(rig, !action->acquisition.steal || watch->seen_stealable);
  epoch_over(watch);
  watch->locked = watch->lost = watch->rolled = watch->unlock_tried = false;
  watch->owner = action->owner;
  watch->taken_number = action->number;
}

static void started_fence(struct rig *rig, const struct action *action)
{
  struct rig_watch *watch = &rig->watch;
  rig_assert(rig, watch->locked);
  rig_assert(rig, action->epoch_seen == watch->epoch_checked);
  rig_assert(rig, action->clean_seen == watch->clean_checked && action->vouched_seen == watch->vouched_checked);
  rig_assert(rig, watch->epoch == 0); /* one epoch per fence */
}

static void started_settle(struct rig *rig, const struct action *action)
{
  struct rig_watch *watch = &rig->watch;
  rig_assert(rig, alive(rig));
  rig_assert(rig, !watch->appended && !watch->clean_sent);
  rig_assert(rig, action->settled == watch->settled && watch->settled < watch->committed.seq);
  rig_assert(rig, same_end(&action->end, &watch->committed));
}

/* What an action commits at its end follows on what is known to be committed. */
static void commit_follows(struct rig *rig, const struct ledger_commit *commit)
{
  struct rig_watch *watch = &rig->watch;
  rig_assert(rig, !watch->fenced && !watch->failed);
  rig_assert(rig, commit->epoch == watch->epoch && same_owner(&commit->owner, &watch->owner));
  rig_assert(rig, same_end(&commit->before, &watch->committed));
  rig_assert(rig, commit->settled == watch->settled && commit->settled <= commit->after.seq);
  rig_assert(rig, commit->guarded == watch->vouches);
}

/* BEGIN, APPEND: the steps to a block in the file. */
static void started_write(struct rig *rig, const struct action *action)
{
  struct rig_watch *watch = &rig->watch;
  rig_assert(rig, alive(rig));
  rig_assert(rig, watch->settled >= watch->committed.seq || watch->wrote); /* a new holder settles first */
  rig_assert(rig, !watch->pending);                                        /* not before the previous commit is known */
  rig_assert(rig, !watch->clean_sent && !watch->closed && !watch->failed && !watch->spent);
  rig_assert(rig, watch->loads_committed < watch->loads_read);
  rig_assert(rig, watch->loads_committed - watch->loads_deleted < LOADS_COMMITTED_MAX);
  commit_follows(rig, &action->commit);
  rig_assert(rig, !action->commit.set_clean);
  if (action->kind == ACTION_APPEND) {
    rig_assert(rig, watch->may_append);
    rig_assert(rig, action->load == watch->loads[watch->loads_committed].load);
    watch->appended = true;
    return;
  }
  rig_assert(rig, !watch->may_append && !watch->appended); /* once an epoch, before its first block */
  rig_assert(rig, action->fresh == (watch->rolled || watch->committed.file[0] == 0));
  rig_assert(rig, action->ledger.epoch == watch->epoch - 1 && action->ledger.clean == watch->before_clean);
  rig_assert(rig, ledger_vouched(&action->ledger) == watch->before_vouched);
  rig_assert(rig, same_end(&action->ledger.end, &watch->committed));
}

/* The last commit of an epoch: `clean`. `closes`: with the CLOSE of the same action. */
static void started_clean(struct rig *rig, const struct ledger_commit *commit, bool closes)
{
  struct rig_watch *watch = &rig->watch;
  bool closed = closes || watch->closed;
  rig_assert(rig, commit->set_clean && commit->clean);
  rig_assert(rig, !runs(rig, ACTIVITY_READ) && !deletes(rig));
  rig_assert(rig, closed || !watch->appended);
  rig_assert(rig, closed || (watch->before_clean && !watch->unnamed));
  watch->clean_sent = true;
}

/* Again what has no answer, and nothing else. */
static void started_commit(struct rig *rig, const struct action *action)
{
  struct rig_watch *watch = &rig->watch;
  const struct ledger_commit *commit = &action->commit;
  commit_follows(rig, commit);
  if (commit->set_clean) {
    rig_assert(rig, watch->clean_sent);
    started_clean(rig, commit, false);
    rig_assert(rig, same_end(&commit->after, watch->closed ? &watch->written : &watch->committed));
    return;
  }
  rig_assert(rig, !watch->clean_sent && watch->pending && !watch->closed);
  rig_assert(rig, same_end(&commit->after, &watch->written));
}

static void started_close(struct rig *rig, const struct action *action)
{
  struct rig_watch *watch = &rig->watch;
  rig_assert(rig, !runs(rig, ACTIVITY_READ) && !deletes(rig));
  rig_assert(rig, !watch->clean_sent && !watch->closed);
  if (!watch->fenced && !watch->failed)
    rig_assert(rig, !watch->pending); /* what may be in the file is committed first */
  if (action->write_close)
    rig_assert(rig, watch->wrote && !watch->fenced && !watch->failed && action->commits);
  if (!action->commits)
    return;
  commit_follows(rig, &action->commit);
  started_clean(rig, &action->commit, action->write_close);
}

static void started_read(struct rig *rig, const struct action *action)
{
  struct rig_watch *watch = &rig->watch;
  rig_assert(rig, alive(rig) && !watch->clean_sent && !watch->closed && !watch->failed);
  rig_assert(rig, watch->loads_read < RIG_LOADS);
  rig_assert(rig, watch->loads_read - watch->loads_committed <= LOADS_READY_MAX);
  if (!action->begin)
    return;
  rig_assert(rig, !runs(rig, ACTIVITY_MAIN) && !deletes(rig));
  rig_assert(rig, watch->loads_deleted == watch->loads_read); /* otherwise the pass would see committed messages again */
  rig_assert(rig, !watch->pending && watch->settled >= watch->committed.seq);
}

static void started_delete(struct rig *rig, const struct action *action)
{
  struct rig_watch *watch = &rig->watch;
  rig_assert(rig, alive(rig) && !watch->clean_sent && !watch->failed);
  const struct rig_load *load = load_find(rig, action->load);
  rig_assert(rig, action->load->ids_deleted == load->deleted && load->deleted < load->ids);
  for (int i = ACTIVITY_DELETE; i <= ACTIVITY_DELETE_LAST; i++) /* each load by one action at a time */
    rig_assert(rig, !rig->slots[i].running || rig->slots[i].action.load != action->load);
}

static void started_renew(struct rig *rig)
{
  const struct rig_watch *watch = &rig->watch;
  rig_assert(rig, watch->locked && !watch->lost && !watch->unlock_tried);
  const struct rig_slot *slot = &rig->slots[ACTIVITY_MAIN];
  rig_assert(rig, !slot->running || rig->moment.now_ms - slot->started_ms < rig->consumer.core.options.stall_ms);
}

static void started_kind(struct rig *rig, const struct action *action)
{
  struct rig_watch *watch = &rig->watch;
  switch (action->kind) {
  case ACTION_PEEK:
  case ACTION_CHECK:
  case ACTION_LOOK:
    rig_assert(rig, !watch->locked || watch->unlock_tried);
    return;
  case ACTION_TAKE:
    started_take(rig, action);
    return;
  case ACTION_FENCE:
    started_fence(rig, action);
    return;
  case ACTION_OPEN:
    rig_assert(rig, !watch->appended && !watch->closed && action->ledger.epoch == watch->epoch - 1);
    return;
  case ACTION_SETTLE:
    started_settle(rig, action);
    return;
  case ACTION_BEGIN:
  case ACTION_APPEND:
    started_write(rig, action);
    return;
  case ACTION_COMMIT:
    started_commit(rig, action);
    return;
  case ACTION_CLOSE:
    started_close(rig, action);
    return;
  case ACTION_LEAVE:
    rig_assert(rig, (!watch->locked || watch->unlock_tried) && action->acquisition.queued);
    return;
  case ACTION_UNLOCK:
    rig_assert(rig, watch->locked);
    rig_assert(rig, !runs(rig, ACTIVITY_READ) && !deletes(rig));
    rig_assert(rig, action->epoch == 0 || (watch->rolled && action->epoch == watch->epoch_checked)); /* the epoch's end is clean */
    watch->unlock_tried = true;
    return;
  case ACTION_READ:
    started_read(rig, action);
    return;
  case ACTION_DELETE:
    started_delete(rig, action);
    return;
  case ACTION_RENEW:
    started_renew(rig);
    return;
  case ACTION_COUNT:
    rig_assert(rig, !"an action");
  }
}

void watch_started(struct rig *rig, const struct action *action)
{
  const struct rig_watch *watch = &rig->watch;
  enum activity activity = action->activity;
  rig_assert(rig, !rig->slots[activity].running);
  rig_assert(rig, action->number > rig->number_last);
  rig->number_last = action->number;
  if (action->kind >= ACTION_FENCE && action->kind != ACTION_LEAVE)
    rig_assert(rig, same_owner(&action->owner, &watch->owner));
  if ((action->kind >= ACTION_OPEN && action->kind <= ACTION_CLOSE) || action->kind == ACTION_READ || action->kind == ACTION_DELETE)
    rig_assert(rig, action->epoch > 0 && action->epoch == watch->epoch);
  if (watch->fenced)
    rig_assert(rig, activity != ACTIVITY_READ && action->kind != ACTION_DELETE && activity != ACTIVITY_RENEW);
  started_kind(rig, action);
  rig->slots[activity] = (struct rig_slot){.running = true, .action = *action, .started_ms = rig->moment.now_ms};
}

/* ---- what the answers change ---- */

static void answered_lock(struct rig *rig, const struct completion *completion)
{
  struct rig_watch *watch = &rig->watch;
  bool yes = completion->result == RESULT_YES, no = completion->result == RESULT_NO;
  if (completion->kind == ACTION_TAKE) {
    watch->locked = !no;
    watch->checked = false; /* valid for this time only */
    if (no)                 /* it goes on waiting, under the same owner */
      memset(&watch->owner, 0, sizeof watch->owner);
    watch->deadline_ms = completion->sent_ms + rig->consumer.core.options.lease_ms * 2 / 3;
  } else if (completion->kind == ACTION_UNLOCK) {
    watch->locked = watch->locked && !yes && !no;
  } else if (completion->number > watch->taken_number && yes) {
    watch->deadline_ms = completion->sent_ms + rig->consumer.core.options.lease_ms * 2 / 3;
  } else if (completion->number > watch->taken_number && no) {
    watch->lost = true;
  }
}

static void answered_fence(struct rig_watch *watch, const struct action *action, const struct completion *completion)
{
  watch->place = completion->place;
  if (completion->result != RESULT_YES)
    return;
  watch->epoch = action->epoch_seen + 1;
  watch->before_clean = completion->ledger.clean;
  watch->before_vouched = ledger_vouched(&completion->ledger);
  watch->committed = completion->ledger.end;
  watch->settled = completion->ledger.settled;
}

static void answered_settle(struct rig_watch *watch, const struct completion *completion)
{
  if (completion->result == RESULT_YES)
    watch->settled = completion->settled;
  watch->fenced = watch->fenced || completion->result == RESULT_NO;
}

static void answered_begin(struct rig_watch *watch, const struct completion *completion)
{
  enum result result = completion->result;
  watch->failed = watch->failed || result == RESULT_FAILED;
  watch->fenced = watch->fenced || result == RESULT_NO;
  watch->spent = watch->spent || result == RESULT_SPENT || result == RESULT_REFUSED;
  watch->unnamed = watch->unnamed || completion->unnamed;
  watch->vouches = completion->guarded;
  watch->may_append = result == RESULT_YES;
  watch->pending = watch->pending_segment = result == RESULT_UNKNOWN && completion->created;
  watch->written = completion->end;
  if (result == RESULT_YES && completion->created)
    watch->committed = completion->end;
}

static void load_committed(struct rig_watch *watch, const struct committed *end)
{
  watch->committed = *end;
  watch->loads[watch->loads_committed++].seq_last = end->seq;
}

static void answered_append(struct rig_watch *watch, const struct completion *completion)
{
  enum result result = completion->result;
  watch->failed = watch->failed || result == RESULT_FAILED;
  watch->fenced = watch->fenced || result == RESULT_NO;
  watch->wrote = watch->wrote || result == RESULT_YES || result == RESULT_UNKNOWN;
  watch->pending = result == RESULT_UNKNOWN;
  watch->pending_segment = false;
  watch->written = completion->end;
  if (result == RESULT_YES)
    load_committed(watch, &completion->end);
  else if (result == RESULT_NO_SPACE)
    watch->appended = watch->wrote; /* nothing was written */
}

/* Next: unlock, or roll. */
static void clean_committed(struct rig_watch *watch)
{
  watch->epoch_checked = watch->epoch;
  watch->clean_checked = true;
  watch->vouched_checked = watch->vouches;
  bool unlock_tried = watch->unlock_tried;
  epoch_over(watch);
  watch->unlock_tried = unlock_tried;
  watch->rolled = true;
}

static void answered_commit(struct rig_watch *watch, const struct action *action, const struct completion *completion)
{
  watch->fenced = watch->fenced || completion->result == RESULT_NO;
  if (completion->result != RESULT_YES)
    return;
  if (action->commit.set_clean) {
    clean_committed(watch);
    return;
  }
  watch->pending = false;
  watch->may_append = true;
  if (watch->pending_segment)
    watch->committed = watch->written;
  else
    load_committed(watch, &watch->written);
}

static void answered_close(struct rig_watch *watch, const struct action *action, const struct completion *completion)
{
  enum result result = completion->result;
  watch->failed = watch->failed || result == RESULT_FAILED;
  watch->fenced = watch->fenced || result == RESULT_NO;
  watch->closed = action->write_close && (result == RESULT_YES || result == RESULT_UNKNOWN);
  watch->written = completion->end;
  if (result == RESULT_YES && action->commits)
    clean_committed(watch);
}

static void answered_read(struct rig *rig, const struct completion *completion)
{
  struct rig_watch *watch = &rig->watch;
  struct load *load = completion->load;
  if (load == NULL)
    return;
  if (watch->loads_read == RIG_LOADS) { /* forget the loads that are deleted */
    memmove(watch->loads, watch->loads + watch->loads_deleted, (size_t)(RIG_LOADS - watch->loads_deleted) * sizeof watch->loads[0]);
    watch->loads_read -= watch->loads_deleted;
    watch->loads_committed -= watch->loads_deleted;
    watch->loads_deleted = 0;
  }
  watch->loads[watch->loads_read++] = (struct rig_load){.load = load, .ids = load->ids_count, .messages = load->messages};
}

static void answered_delete(struct rig *rig, const struct completion *completion)
{
  struct rig_watch *watch = &rig->watch;
  load_find(rig, completion->load)->deleted += completion->result == RESULT_YES;
  for (const struct rig_load *load = &watch->loads[watch->loads_deleted];
       watch->loads_deleted < watch->loads_committed && load->deleted == load->ids; load++) {
    watch->settled = load->seq_last;
    watch->loads_deleted++;
  }
}

void watch_answered(struct rig *rig, const struct action *action, const struct completion *completion)
{
  struct rig_watch *watch = &rig->watch;
  rig->slots[action->activity].running = false;
  switch (action->kind) {
  case ACTION_PEEK:
  case ACTION_LEAVE:
  case ACTION_COUNT:
    return;
  case ACTION_OPEN:
    watch->fenced = completion->result == RESULT_NO;
    return;
  case ACTION_CHECK:
    watch->checked = completion->result == RESULT_YES;
    watch->epoch_checked = completion->ledger.epoch;
    watch->clean_checked = completion->ledger.clean;
    watch->vouched_checked = ledger_vouched(&completion->ledger);
    return;
  case ACTION_LOOK:
    watch->seen_stealable = completion->result == RESULT_YES && completion->acquisition.view.stealable;
    return;
  case ACTION_TAKE:
  case ACTION_UNLOCK:
  case ACTION_RENEW:
    answered_lock(rig, completion);
    return;
  case ACTION_FENCE:
    answered_fence(watch, action, completion);
    return;
  case ACTION_SETTLE:
    answered_settle(watch, completion);
    return;
  case ACTION_BEGIN:
    answered_begin(watch, completion);
    return;
  case ACTION_APPEND:
    answered_append(watch, completion);
    return;
  case ACTION_COMMIT:
    answered_commit(watch, action, completion);
    return;
  case ACTION_CLOSE:
    answered_close(watch, action, completion);
    return;
  case ACTION_READ:
    answered_read(rig, completion);
    return;
  case ACTION_DELETE:
    answered_delete(rig, completion);
    return;
  }
}

/* ---- after each event ---- */

static enum consumer_state state_named(const char *name, size_t length)
{
  for (int i = 0; i < STATE_COUNT; i++)
    if (strlen(consumer_state_name(i)) == length && strncmp(consumer_state_name(i), name, length) == 0)
      return i;
  return STATE_COUNT;
}

/* The consumer logs every change of the state, and each change is an edge of the map. */
static void watch_edges(struct rig *rig, enum consumer_state before)
{
  enum consumer_state at = before;
  for (int i = 0; i < rig->effects.note_count; i++) {
    const char *text = rig->effects.notes[i].text, *arrow = strstr(text, " -> ");
    if (strcmp(rig->effects.notes[i].event, "state") != 0)
      continue;
    rig_assert(rig, arrow != NULL);
    enum consumer_state from = state_named(text, (size_t)(arrow - text)), to = state_named(arrow + 4, strcspn(arrow + 4, ":"));
    rig_assert(rig, from == at && to < STATE_COUNT && edge_take(rig, from, to));
    at = to;
  }
  rig_assert(rig, at == rig->consumer.core.state || rig->effects.note_count == EFFECTS_NOTES_MAX);
}

void watch_turn(struct rig *rig, enum consumer_state before)
{
  const struct consumer *consumer = &rig->consumer;
  bool any = false;
  watch_edges(rig, before);
  for (int i = 0; i < ACTIVITY_COUNT; i++) {
    any = any || (rig->slots[i].running && i != ACTIVITY_RENEW);
    rig_assert(rig, consumer->core.activity[i].running == rig->slots[i].running);
  }
  int64_t wake = consumer_wake_ms(consumer);
  rig_assert(rig, wake > rig->moment.now_ms); /* no loop without a pause */
  bool over = consumer->core.state == STATE_STOPPED || consumer->core.state == STATE_DONE;
  rig_assert(rig, consumer_is_over(consumer) == (over && !any));
  rig_assert(rig, over || any || runs(rig, ACTIVITY_RENEW) || wake < INT64_MAX); /* it never sleeps for ever */
  rig_assert(rig, rig->watch.loads_committed - rig->watch.loads_deleted <= LOADS_COMMITTED_MAX);
  if (over || consumer->core.state == STATE_BACKING_OFF || consumer->core.state == STATE_IDLE)
    rig_assert(rig, !runs(rig, ACTIVITY_READ) && !deletes(rig));
}
