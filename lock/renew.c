#include "lock/private.h"
#include "lock/seam.h"
#include "lockstore/lease.h"
#include "lockstore/mutex.h"

#include <stdlib.h>

/*
 * All that are held are renewed together: whatever is due within a sixth of a lease, so that ten thousand locks make six commands of a
 * thousand or two a lease.
 */

enum { WARNING_MS = 10000 }; /* a renewal that is sent so long after a `lost` wake-up has refuted it */

struct renewals {
  struct lock_renewal *locks;
  struct hold **holds;
  size_t count;
};

void renewal_due(struct pawl *pawl, int64_t due_ms)
{
  if (due_ms >= pawl->renewal.due_ms)
    return;
  pawl->renewal.due_ms = due_ms;
  seam_job_put(pawl);
}

static bool is_renewed(const struct hold *hold)
{
  return hold->state == HOLD_HELD || (hold->state == HOLD_WAITS && hold->sent_ms != 0);
}

static void lose(struct pawl *pawl, struct hold *hold, enum pawl_reason reason, const char *text)
{
  struct pawl_error error;
  if (hold->state == HOLD_HELD) {
    hold_lose(pawl, hold, reason, text);
    return;
  }
  (void)result_set(&error, PAWL_LOST, "taking several locks: %s was lost while the others were waited for", hold->name);
  set_finish(pawl, hold->set, PAWL_LOST, &error);
}

/* Nothing is sent for a hold that is lost by its clock, and none is renewed beyond its longest time. */
static bool lost_by_clock(struct pawl *pawl, struct hold *hold, int64_t now_ms)
{
  if (now_ms >= hold->end_ms)
    lose(pawl, hold, PAWL_REASON_OVER, NULL);
  else if (now_ms >= hold_until_ms(pawl, hold))
    lose(pawl, hold, hold->away ? PAWL_REASON_AWAY : PAWL_REASON_EXPIRED, NULL);
  else
    return false;
  return true;
}

/* The end of a set may free any hold that waits: so from the beginning after each. */
static void lose_late(struct pawl *pawl, int64_t now_ms)
{
  struct hold *hold = LIST_FIRST(&pawl->holds);
  while (hold != NULL)
    hold = is_renewed(hold) && lost_by_clock(pawl, hold, now_ms) ? LIST_FIRST(&pawl->holds) : LIST_NEXT(hold, all);
}

/* False: no memory; they are tried again. */
static bool collect(struct pawl *pawl, int64_t now_ms, bool documents, struct renewals *renewals)
{
  struct hold *hold;
  int64_t until_ms = now_ms + lease_renew_ms(pawl->lease_ms) / 2;
  size_t room = pawl->job_count;
  *renewals = (struct renewals){.locks = calloc(room + 1, sizeof *renewals->locks), .holds = calloc(room + 1, sizeof(struct hold *))};
  if (renewals->locks == NULL || renewals->holds == NULL)
    return false;
  LIST_FOREACH (hold, &pawl->holds, all) {
    if (!is_renewed(hold) || hold->renew_ms > until_ms || (hold->document != NULL) != documents)
      continue;
    hold->pins++;
    renewals->holds[renewals->count] = hold;
    renewals->locks[renewals->count++] =
        (struct lock_renewal){.type = hold->name, .slot = hold->slot, .kind = LOCK_BY_TOOL, .owner = hold->owner, .ttl_ms = pawl->lease_ms};
  }
  return true;
}

/* An answer that comes when the hold is lost by its clock renews nothing: its user may have seen that. */
static void renewed(struct pawl *pawl, struct hold *hold, enum outcome outcome, int64_t sent_ms, const struct error *error)
{
  bool answered = outcome == OUTCOME_YES || outcome == OUTCOME_NO;
  if (!answered) {
    hold_away(pawl, hold, result_of_error(error, false), error->text);
    hold->renew_ms = seam_now_ms(pawl) + lease_renew_ms(pawl->lease_ms) / 8;
  }
  if (lost_by_clock(pawl, hold, seam_now_ms(pawl)) || !answered)
    return;
  if (outcome == OUTCOME_NO) {
    lose(pawl, hold, hold->why != NULL ? PAWL_REASON_BROKEN : hold->warned_ms != 0 ? PAWL_REASON_STOLEN : PAWL_REASON_REMOVED, NULL);
    return;
  }
  if (sent_ms > hold->warned_ms + WARNING_MS)
    hold_unwarned(hold);
  hold_renewed(pawl, hold, sent_ms);
}

/* When the earliest of them is due; no later than the end of one that cannot be renewed. */
static void schedule(struct pawl *pawl)
{
  const struct hold *hold;
  pawl->renewal.due_ms = INT64_MAX;
  LIST_FOREACH (hold, &pawl->holds, all) {
    int64_t due_ms = hold->away && hold_until_ms(pawl, hold) < hold->renew_ms ? hold_until_ms(pawl, hold) : hold->renew_ms;
    if (is_renewed(hold) && due_ms < pawl->renewal.due_ms)
      pawl->renewal.due_ms = due_ms;
  }
}

static void answered(struct pawl *pawl, struct hold *hold, enum outcome outcome, int64_t sent_ms, const struct error *error)
{
  hold->pins--;
  if (is_renewed(hold) && !hold->over)
    renewed(pawl, hold, outcome, sent_ms, error);
  hold_drop(pawl, hold);
}

/* False: no memory. */
static bool locks_renew(struct pawl *pawl, int64_t now_ms)
{
  struct error error = {.text = ""};
  struct renewals renewals;
  bool collected = collect(pawl, now_ms, false, &renewals);
  if (collected && renewals.count > 0) {
    pthread_mutex_unlock(&pawl->mutex);
    bool done = lock_renew_all(pawl->store, renewals.locks, renewals.count, &error) == OUTCOME_YES;
    pthread_mutex_lock(&pawl->mutex);
    for (size_t i = 0; i < renewals.count; i++)
      answered(pawl, renewals.holds[i], done ? renewals.locks[i].outcome : OUTCOME_UNKNOWN, now_ms, &error);
  }
  free(renewals.locks);
  free(renewals.holds);
  return collected;
}

static bool a_lock_is_due(const struct pawl *pawl, int64_t now_ms)
{
  const struct hold *hold;
  LIST_FOREACH (hold, &pawl->holds, all)
    if (is_renewed(hold) && hold->document == NULL && hold->renew_ms <= now_ms)
      return true;
  return false;
}

static enum outcome document_send(struct pawl *pawl, const struct hold *hold, struct error *error)
{
  const struct document_hold held = {
      .place = hold->document->place, .id = &hold->document->document, .owner = hold->owner, .token = hold->token};
  pthread_mutex_unlock(&pawl->mutex);
  enum outcome outcome = document_renew(pawl->store, &held, pawl->lease_ms, error);
  pthread_mutex_lock(&pawl->mutex);
  return outcome;
}

/* One by one: so the locks are renewed in between, where they are due. */
static bool documents_renew(struct pawl *pawl, int64_t begun_ms)
{
  struct renewals renewals;
  bool collected = collect(pawl, begun_ms, true, &renewals);
  for (size_t i = 0; collected && i < renewals.count; i++) {
    struct error error = {.text = ""};
    struct hold *hold = renewals.holds[i];
    int64_t now_ms = seam_now_ms(pawl);
    lose_late(pawl, now_ms);
    if (a_lock_is_due(pawl, now_ms))
      (void)locks_renew(pawl, now_ms); /* without memory the next call tries again */
    now_ms = seam_now_ms(pawl);
    enum outcome outcome = is_renewed(hold) && !hold->over ? document_send(pawl, hold, &error) : OUTCOME_NO;
    answered(pawl, hold, outcome, now_ms, &error);
  }
  free(renewals.locks);
  free(renewals.holds);
  return collected;
}

void renewal_run(struct pawl *pawl, struct job *job)
{
  int64_t now_ms = seam_now_ms(pawl);
  (void)job;
  lose_late(pawl, now_ms);
  bool locks = locks_renew(pawl, now_ms), documents = documents_renew(pawl, seam_now_ms(pawl));
  schedule(pawl);
  if (!locks || !documents)
    pawl->renewal.due_ms = now_ms + lease_renew_ms(pawl->lease_ms) / 8;
}
