/*
 * turn: one call of consumer_handle, and what the machines of a type share: its state, the actions that run, the pause before
 * MAIN's next action, notes and counts. The machines are lease, pace, trust, seek and epoch; each keeps its own fields, and the
 * others call its functions. Pure. Private to the consumer's files; consumer.h is for the others.
 */
#ifndef PAWL_WORKER_TURN_H
#define PAWL_WORKER_TURN_H

#include "worker/action.h"

enum consumer_state {
  STATE_IDLE,        /* polls the queue every poll_ms, or when it is woken */
  STATE_CHECKING,    /* compares the storage with the ledger */
  STATE_WAITING,     /* looks whether it is its turn to take the mutex, by a timer, or when it is woken */
  STATE_TAKING,      /* inserts the lock document */
  STATE_FENCING,     /* moves the ledger to the next epoch */
  STATE_OPENING,     /* opens the file afresh and checks it again */
  STATE_SETTLING,    /* deletes what the last holder committed and did not delete */
  STATE_DRAINING,    /* reads, writes, deletes */
  STATE_RELEASING,   /* writes CLOSE, and the ledger's `clean` */
  STATE_UNLOCKING,   /* deletes the lock document, or leaves the wait queue */
  STATE_BACKING_OFF, /* pauses after a failed write or sync */
  STATE_STOPPED,     /* the storage cannot be trusted, or the database check failed */
  STATE_DONE,        /* asked to stop, and nothing is left to do */
  STATE_COUNT,
};
const char *consumer_state_name(enum consumer_state state);

struct moment {
  int64_t now_ms; /* boot-time clock */
  int64_t wall_us;
  uint8_t random[16]; /* fresh */
};

enum log_level { LEVEL_ERROR, LEVEL_WARN, LEVEL_INFO, LEVEL_DEBUG };
struct log_event {
  enum log_level level;
  const char *name;   /* a static word: "state", "takeover", "no-space", … */
  int64_t epoch, seq; /* the last known values */
  char text[1536];
};

enum { EFFECTS_ACTIONS_MAX = ACTIVITY_COUNT, EFFECTS_EVENTS_MAX = 16 };
struct effects {
  struct action actions[EFFECTS_ACTIONS_MAX];
  int action_count;
  struct log_event events[EFFECTS_EVENTS_MAX];
  int event_count;
  bool drop_read; /* the reply of the running READ is not needed any more: READ shall end soon, with any result */
};

struct consumer_options {
  int64_t lease_ms, retry_ms, poll_ms, linger_ms, stall_ms;
  int64_t segment_bytes; /* roll when a segment has this size; 0: never */
  int64_t poll_share;    /* after a poll that found nothing: pause for this many times its duration; all types share one processor */
  bool polls_in_step;    /* there are many types: idle ones poll at the same moments, so that their polls can go together */
  bool exits_when_empty; /* a paused type would keep it for ever: an error */
  int64_t distrust_ms;   /* how long a check must fail before the failure is believed; and the time between checks while idle */
  /* for texts; borrowed from the caller as long as the consumer lives */
  const char *dir;      /* the directory of the files */
  const char *database; /* the name of the database */
  const char *server;   /* the database's hosts, without user and password */
};

/* The events of warnings and errors in the notes. */
enum problem {
  PROBLEM_CLOSE,
  PROBLEM_DISK,
  PROBLEM_DOCUMENT,
  PROBLEM_FENCED,
  PROBLEM_LOCK,
  PROBLEM_LOST,
  PROBLEM_NEWER,
  PROBLEM_NO_SPACE,
  PROBLEM_PASS,
  PROBLEM_REFUSED,
  PROBLEM_SPENT,
  PROBLEM_STALL,
  PROBLEM_UNTRUSTED,
  PROBLEM_COUNT,
};
const char *problem_name(enum problem problem);

/* What this consumer has done since it was initialised; the counts only rise. */
struct consumer_counts {
  int64_t documents; /* committed documents */
  int64_t messages;  /* the messages in them; a bundle counts each */
  int64_t blocks;
  int64_t bytes;        /* bytes of the file in these blocks */
  int64_t deleted;      /* deleted documents, also those that another holder left */
  int64_t acquisitions; /* acquisitions of the lock with an epoch; a roll does not count */
  int64_t segments;     /* segments made */
  int64_t unclean;      /* acquisitions after a holder whose end was not clean */
  struct latencies latencies;
  int64_t problems[PROBLEM_COUNT];
};

enum { PROBLEM_HEAD_MAX = 160, PROBLEM_TAIL_MAX = 80 };
struct core {
  char type[TYPE_BYTES_MAX + 1];
  struct consumer_options options;
  enum consumer_state state;
  int64_t entered_ms;        /* when it entered that state; 0: at its start */
  enum consumer_state after; /* UNLOCKING: the next state */
  int64_t epoch_left;        /* UNLOCKING: the last epoch under this lock, once its end is known to be clean; 0: none */
  bool stopping;
  int64_t stop_ms; /* when EVENT_STOP came */
  bool refused;    /* stopped because the database check failed, not because of the storage */
  uint64_t number; /* of the last action */
  int64_t now_ms;  /* of the last event */

  struct {
    bool running, dropped; /* dropped: the consumer does not wait for the reply any more */
    enum action_kind kind;
    uint64_t number;
    int64_t started_ms;
  } activity[ACTIVITY_COUNT];

  /* the pause */
  int64_t next_ms;     /* MAIN starts nothing before */
  int64_t unknown_row; /* UNKNOWN results in a row, for the back-off */
  bool wakeable;       /* next_ms is the end of a regular pause, which a wake-up may cut short */
  bool woken;          /* the running poll (of MAIN or READ) may be older than a wake-up: poll again at once */

  /* in actions, notes and metrics */
  struct owner owner; /* of the lock */
  int64_t epoch;      /* mine; 0: none */
  int64_t epoch_seen; /* in the ledger, by the last check or fence */
  bool own_known;     /* there was a check, or a fence */
  bool own_seen;      /* the type has its own collection, by the last check or fence */
  int64_t seq_seen;   /* in the ledger, or committed by me */
  int64_t settled;    /* end of the unbroken prefix of acknowledged deletes; without an epoch: the last value seen */

  int64_t failed_disks; /* failures of the disk in a row, for the back-off */
  int64_t failed_holds; /* takes and fences without an answer, and epochs that could not read the queue, in a row; the same */
  struct consumer_counts counts;
  int64_t commit_ms; /* when a block was last committed; -1: none was */
  int64_t turn_ms;   /* when the turn to take the mutex last came */
  int64_t drains_ms; /* when it began to drain under this lock; a roll to the next segment changes nothing */

  /* the last warning or error in the notes, for a report */
  int64_t problem_ms;        /* 0: there was none */
  const char *problem_event; /* static text */
  char problem_text[PROBLEM_HEAD_MAX + PROBLEM_TAIL_MAX + sizeof "…"];
};

struct turn {
  struct core *core;
  struct lease *lease;
  struct pace *pace;
  struct trust *trust;
  struct seek *seek;
  struct epoch *epoch;
  const struct moment *moment;
  struct effects *effects;
};

enum { RECHECK_MS = 1000 }; /* the pause before a failed check, or a full disk, is checked again */

/* The only function that changes the state; it notes the change. */
void turn_enter(struct turn *turn, enum consumer_state state, const char *why);
__attribute__((format(printf, 4, 5))) void turn_log(struct turn *turn, enum log_level level, const char *event, const char *format, ...);
/* The caller fills in the action after this call; it starts when consumer_handle returns. */
struct action *turn_start(struct turn *turn, enum action_kind kind);
bool turn_runs(const struct turn *turn, enum activity activity);
/* How many deletes are running. */
int turn_deletes(const struct turn *turn);
/* Whether MAIN may start an action now. */
bool turn_main_ready(const struct turn *turn);
/*
 * Whether the consumer was asked to stop some time ago: it no longer waits for unknown answers, and leaves them to the lease
 * and to the next holder.
 */
bool turn_hurries(const struct turn *turn);
/* Notes that the database check failed, or that a committed message cannot be deleted. The type shall stop. */
void turn_refused(struct turn *turn, const struct completion *completion);
/* Notes the document that cannot be taken, if a poll or a pass met one. */
void turn_name_document(struct turn *turn, const struct completion *completion);
/* Half to all of `ms`, so that many workers do not act at the same moment. */
int64_t turn_jitter(const struct turn *turn, int64_t ms);
/* The pause after `row` failures in a row: 100 ms doubling to 3 s, with jitter. */
int64_t turn_backoff(const struct turn *turn, int64_t row);

#endif
