/*
 * consumer_rig: drives one consumer without threads, database or disk, and observes it from outside. The world answers as the
 * test tells it to. An observer (consumer_rules.h) knows the protocol's rules (docs/protocol.md) and fails the test at the first action
 * that breaks one, and prints the events that led there.
 *
 * An event is a line of text, so that a test reads like a story:
 *
 *   "wait 100"          100 ms pass, then the timer          "wake"     to the time the consumer asked for, then the timer
 *   "stop"              finish and leave                     "stale"    an unexpected completion, with an item
 *   "message", "lock", "lost"   a wake-up                    "watch", "unwatch"   wake-ups come from now on, or no longer
 *   "APPEND NO_SPACE"   the running action comes back with this result; some results have variants, see rig_play
 */
#ifndef PAWL_TESTS_CONSUMER_RIG_H
#define PAWL_TESTS_CONSUMER_RIG_H

#include "worker/consumer.h"

enum { RIG_HISTORY = 50, RIG_ITEMS = 32 };

struct rig_slot { /* an action under way */
  bool running;
  struct action action;
  int64_t started_ms;
};

struct rig_item { /* as the observer remembers it */
  struct work_item *item;
  size_t ids, deleted;
  uint32_t messages;
  int64_t seq_last;
};

struct rig_rules {
  /* the lock */
  bool checked, locked, lost, unlock_tried;
  int64_t epoch_checked;
  bool clean_checked, vouched_checked; /* of the end, as the check saw it or a roll left it */
  bool seen_stealable;
  struct owner owner;
  uint64_t taken_number;
  int64_t safe_until_ms;
  int64_t least_ms; /* the shortest lease of a renewal that was not answered, and may come late */
  /* the epoch */
  int64_t epoch;
  bool before_clean, before_vouched, rolled, fenced, failed, spent;
  enum place place;
  bool may_append;              /* it is decided which file this epoch writes */
  bool vouches;                 /* the epoch's commits vouch for the end */
  bool appended, wrote, closed; /* APPEND was sent; a block was synced; CLOSE was written */
  bool unnamed;                 /* there may be a segment that the ledger does not name */
  bool clean_sent;
  struct committed committed, written;
  bool pending, pending_segment; /* `written` is not known to be committed; it is a new segment */
  int64_t settled;
  struct rig_item items[RIG_ITEMS]; /* of this epoch, in the order in which they were read */
  int items_read, items_committed, items_deleted;
};

struct rig {
  struct consumer consumer;
  struct moment moment;
  struct effects effects; /* of the last event */
  struct rig_slot slots[ACTIVITY_COUNT];
  struct rig_rules rules;
  uint64_t seed, random, number_last;

  /* the world */
  struct ledger ledger;
  bool vouched; /* the ledger's end is vouched for */
  bool network; /* the directory is on a network file system */
  bool segment; /* BEGIN makes a segment where it need not */
  struct lock_view view;
  bool awaited;           /* a tool waits for the lock */
  size_t item_ids;        /* delete commands per item */
  uint32_t item_messages; /* messages per item */
  int64_t block_bytes;
  bool discard_fails;
  bool late_files;               /* the segment that an earlier check missed is there by now */
  bool late_answers;             /* RENEW and TAKE were sent at some time between start and answer */
  bool nothing_read;             /* POLL: nothing of the type was read yet, so that no tail poll is possible */
  int64_t poll_types;            /* POLL: the number of types that it is made for; 0: one */
  enum queue_source read_source; /* of the pass under way, */
  uint64_t read_at;              /* and its cluster time, which rises from pass to pass */
  bool shared_over;              /* READ NO was the end of `messages`: a pass of the own collection may follow */
  bool names_document;           /* the next POLL or READ names a document that cannot be taken */

  const char *cause; /* the last event, as the history has it */
  char history[RIG_HISTORY][256];
  int events;
};

void rig_init(struct rig *rig, const struct consumer_options *options, uint64_t seed);
/* Answers what is still running (the results are ignored), and frees everything. */
void rig_deinit(struct rig *rig);
struct consumer_options rig_options(void);
uint64_t rig_random(struct rig *rig, uint64_t below);

/*
 * Plays one event. Variants: `LOOK YES:expired`; `RENEW YES:awaited`; `CHECK` and `FENCE YES:none` (no ledger), `:clean`, `:unclean`,
 * `:unsettled`, `:moved` (others wrote since), `:unvouched` and `:unvouched-clean`, each also as `:network-…`; `BEGIN YES:segment` and
 * `BEGIN UNKNOWN:segment` (a new one was made; after UNKNOWN its commit is open), `BEGIN STOPPED:left` (it could not be unlinked);
 * `APPEND YES:large`; `READ YES:many` (ids for two commands); `READ YES:named`, `POLL NO:named` (a document that cannot be
 * taken, and no item); `DELETE YES:last` (of several deletes the one started last). Without a variant the world stays as it is.
 */
void rig_play(struct rig *rig, const char *event);
/* Plays several events, separated by "; ". */
void rig_play_all(struct rig *rig, const char *events);
void rig_timer(struct rig *rig, int64_t ms_later);
void rig_stop(struct rig *rig);
void rig_stale(struct rig *rig);
void rig_wake(struct rig *rig, enum wakeup_about about);
/* Other options from now on. */
void rig_configure(struct rig *rig, const struct consumer_options *options);
void rig_notifications(struct rig *rig, bool notified);
void rig_answer(struct rig *rig, enum activity activity, enum result result);

/* The actions that the last event started, in order: "APPEND READ"; "" if none; "DROP" if the consumer no longer waits for the
 * reply to READ. rig_running: the actions that run now, in order of activity. */
const char *rig_started(const struct rig *rig);
const char *rig_running(const struct rig *rig);
bool rig_logged(const struct rig *rig, const char *event);
/* Whether perform may give this answer. */
bool rig_may_answer(const struct action *action, enum result result);
const char *rig_kind_name(enum action_kind kind);
const char *rig_result_name(enum result result);

/* Fails the test, and prints the history. */
void rig_fail(const struct rig *rig, const char *file, int line, const char *what);
void rig_history(const struct rig *rig);
#define rig_assert(rig, condition) ((condition) ? (void)0 : rig_fail(rig, __FILE__, __LINE__, #condition))
#define rig_expect(rig, expected, actions) rig_expect_at(rig, expected, actions, __FILE__, __LINE__)
void rig_expect_at(const struct rig *rig, enum consumer_state state, const char *started, const char *file, int line);

static inline bool same_owner(const struct owner *a, const struct owner *b)
{
  return memcmp(a, b, sizeof *a) == 0;
}

static inline bool same_end(const struct committed *a, const struct committed *b)
{
  return strcmp(a->file, b->file) == 0 && a->length == b->length && a->tail == b->tail && a->link == b->link && a->seq == b->seq;
}

#endif
