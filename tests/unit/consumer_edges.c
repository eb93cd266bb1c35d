#include "consumer_edges.h"

/* When an edge is allowed. */
enum when {
  ALWAYS,
  STOPPING, /* the consumer was asked to stop; whatever ran then has come back, or nothing ran */
  LEAVING,  /* the same, or two thirds of the lease are over, or it is lost */
};

/* Causes: "TAKE YES", several answers as "UNLOCK YES|NO", other events as "timer"; "*": any. */
static const struct edge {
  enum consumer_state from, to;
  const char *cause;
  enum when when;
} edges[] = {
    {STATE_IDLE, STATE_CHECKING, "POLL YES", ALWAYS},
    {STATE_IDLE, STATE_STOPPED, "POLL REFUSED", ALWAYS},
    {STATE_IDLE, STATE_STOPPED, "CHECK REFUSED|PAUSED", ALWAYS},
    {STATE_IDLE, STATE_DONE, "*", STOPPING},

    {STATE_CHECKING, STATE_WAITING, "CHECK YES", ALWAYS},
    {STATE_CHECKING, STATE_TAKING, "CHECK YES", ALWAYS}, /* it is its turn already */
    {STATE_CHECKING, STATE_IDLE, "POLL NO", ALWAYS},
    {STATE_CHECKING, STATE_UNLOCKING, "POLL NO", ALWAYS}, /* it is in the wait queue */
    {STATE_CHECKING, STATE_STOPPED, "CHECK REFUSED|PAUSED", ALWAYS},
    {STATE_CHECKING, STATE_STOPPED, "POLL REFUSED", ALWAYS},
    {STATE_CHECKING, STATE_UNLOCKING, "POLL REFUSED", ALWAYS},
    {STATE_CHECKING, STATE_UNLOCKING, "CHECK REFUSED|PAUSED", ALWAYS},
    {STATE_CHECKING, STATE_DONE, "*", STOPPING},
    {STATE_CHECKING, STATE_UNLOCKING, "*", STOPPING},

    {STATE_WAITING, STATE_TAKING, "LOOK YES", ALWAYS},
    {STATE_WAITING, STATE_CHECKING, "POLL YES", ALWAYS}, /* its turn, and others were at work since the check */
    {STATE_WAITING, STATE_CHECKING, "CHECK REFUSED|CHANGED|NEWER|PAUSED", ALWAYS},
    {STATE_WAITING, STATE_UNLOCKING, "CHECK PAUSED", ALWAYS},
    {STATE_WAITING, STATE_IDLE, "POLL NO", ALWAYS},
    {STATE_WAITING, STATE_UNLOCKING, "POLL NO", ALWAYS},
    {STATE_WAITING, STATE_STOPPED, "POLL REFUSED", ALWAYS},
    {STATE_WAITING, STATE_UNLOCKING, "POLL REFUSED", ALWAYS},
    {STATE_WAITING, STATE_DONE, "*", STOPPING},
    {STATE_WAITING, STATE_UNLOCKING, "*", STOPPING},

    {STATE_TAKING, STATE_FENCING, "TAKE YES", ALWAYS},
    {STATE_TAKING, STATE_WAITING, "TAKE NO", ALWAYS},
    {STATE_TAKING, STATE_UNLOCKING, "TAKE UNKNOWN", ALWAYS},
    {STATE_TAKING, STATE_DONE, "*", STOPPING}, /* before the insert was sent */
    {STATE_TAKING, STATE_UNLOCKING, "*", STOPPING},

    {STATE_FENCING, STATE_OPENING, "FENCE YES", ALWAYS},
    {STATE_FENCING, STATE_UNLOCKING, "FENCE NO|REFUSED|FAILED", ALWAYS},
    {STATE_FENCING, STATE_UNLOCKING, "timer", ALWAYS}, /* no answer for two thirds of the lease */
    {STATE_FENCING, STATE_UNLOCKING, "*", STOPPING},

    {STATE_OPENING, STATE_SETTLING, "OPEN YES", ALWAYS},
    {STATE_OPENING, STATE_RELEASING, "OPEN NO|REFUSED|NEWER", ALWAYS},
    {STATE_OPENING, STATE_RELEASING, "OPEN UNKNOWN", STOPPING},

    {STATE_SETTLING, STATE_DRAINING, "OPEN YES", ALWAYS}, /* nothing is to be settled */
    {STATE_SETTLING, STATE_DRAINING, "SETTLE YES", ALWAYS},
    {STATE_SETTLING, STATE_RELEASING, "SETTLE NO|REFUSED|NEWER|LEFT", ALWAYS},
    {STATE_SETTLING, STATE_RELEASING, "SETTLE YES|UNKNOWN|STOPPED", ALWAYS}, /* a tool waits */
    {STATE_SETTLING, STATE_RELEASING, "RENEW YES", ALWAYS},                  /* the same, between two of them */
    {STATE_SETTLING, STATE_RELEASING, "*", LEAVING},

    {STATE_DRAINING, STATE_RELEASING, "*", ALWAYS}, /* it leaves when all that runs beside has come back, whichever is last */

    {STATE_RELEASING, STATE_UNLOCKING, "CLOSE YES|NO|NO_SPACE|FAILED", ALWAYS},
    {STATE_RELEASING, STATE_UNLOCKING, "COMMIT YES|NO", ALWAYS},
    {STATE_RELEASING, STATE_FENCING, "CLOSE YES", ALWAYS}, /* a roll */
    {STATE_RELEASING, STATE_FENCING, "COMMIT YES", ALWAYS},
    {STATE_RELEASING, STATE_DONE, "CLOSE UNKNOWN", STOPPING},
    {STATE_RELEASING, STATE_DONE, "COMMIT UNKNOWN", STOPPING},
    {STATE_RELEASING, STATE_STOPPED, "CLOSE UNKNOWN", STOPPING},
    {STATE_RELEASING, STATE_STOPPED, "COMMIT UNKNOWN", STOPPING},

    {STATE_UNLOCKING, STATE_IDLE, "UNLOCK YES|NO|UNKNOWN", ALWAYS},
    {STATE_UNLOCKING, STATE_IDLE, "LEAVE YES|NO|UNKNOWN", ALWAYS},
    {STATE_UNLOCKING, STATE_CHECKING, "UNLOCK YES|NO|UNKNOWN", ALWAYS},
    {STATE_UNLOCKING, STATE_CHECKING, "LEAVE YES|NO|UNKNOWN", ALWAYS}, /* the type is paused */
    {STATE_UNLOCKING, STATE_BACKING_OFF, "UNLOCK YES|NO|UNKNOWN", ALWAYS},
    {STATE_UNLOCKING, STATE_STOPPED, "UNLOCK YES|NO|UNKNOWN", ALWAYS},
    {STATE_UNLOCKING, STATE_STOPPED, "LEAVE YES|NO|UNKNOWN", ALWAYS},
    {STATE_UNLOCKING, STATE_DONE, "*", STOPPING},

    {STATE_BACKING_OFF, STATE_IDLE, "timer", ALWAYS},
    {STATE_BACKING_OFF, STATE_DONE, "*", STOPPING},
};

enum { EDGES = sizeof edges / sizeof *edges };
static bool taken[EDGES];

/* "UNLOCK NO" is one of "UNLOCK YES|NO|UNKNOWN". */
static bool cause_fits(const char *causes, const char *cause)
{
  if (strcmp(causes, "*") == 0)
    return true;
  size_t kind = strcspn(causes, " "), length;
  if (causes[kind] == 0)
    return strcmp(causes, cause) == 0;
  if (strncmp(causes, cause, kind + 1) != 0)
    return false;
  for (const char *result = causes + kind + 1; *result != 0; result += length + (result[length] == '|')) {
    length = strcspn(result, "|");
    if (strlen(cause + kind + 1) == length && strncmp(cause + kind + 1, result, length) == 0)
      return true;
  }
  return false;
}

static bool when_fits(const struct rig *rig, enum when when)
{
  const struct consumer *consumer = &rig->consumer;
  bool late = rig->moment.now_ms >= rig->rules.safe_until_ms || rig->rules.lost || consumer->lease.lost;
  return when == ALWAYS || consumer->core.stopping || (when == LEAVING && late);
}

static bool edge_take(const struct rig *rig, enum consumer_state from, enum consumer_state to)
{
  for (int i = 0; i < EDGES; i++)
    if (edges[i].from == from && edges[i].to == to && cause_fits(edges[i].cause, rig->cause) && when_fits(rig, edges[i].when))
      return taken[i] = true;
  return false;
}

static enum consumer_state state_named(const char *name, size_t length)
{
  for (int i = 0; i < STATE_COUNT; i++)
    if (strlen(consumer_state_name(i)) == length && strncmp(consumer_state_name(i), name, length) == 0)
      return i;
  return STATE_COUNT;
}

/* The consumer logs every change of the state, and each change is an edge of the map. */
void edges_follow(const struct rig *rig, enum consumer_state before)
{
  enum consumer_state at = before;
  for (int i = 0; i < rig->effects.event_count; i++) {
    const char *text = rig->effects.events[i].text, *arrow = strstr(text, " -> ");
    if (strcmp(rig->effects.events[i].name, "state") != 0)
      continue;
    rig_assert(rig, arrow != NULL);
    enum consumer_state from = state_named(text, (size_t)(arrow - text)), to = state_named(arrow + 4, strcspn(arrow + 4, ":"));
    rig_assert(rig, from == at && to < STATE_COUNT && edge_take(rig, from, to));
    at = to;
  }
  rig_assert(rig, at == rig->consumer.core.state || rig->effects.event_count == EFFECTS_EVENTS_MAX);
}

int edges_unseen(void)
{
  int unseen = 0;
  for (int i = 0; i < EDGES; i++)
    if (!taken[i]) {
      fprintf(stderr, "never: %s -> %s: %s\n", consumer_state_name(edges[i].from), consumer_state_name(edges[i].to), edges[i].cause);
      unseen++;
    }
  return unseen;
}
