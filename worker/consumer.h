/*
 * consumer: the state machine of one type. Pure: no calls, no clock, no randomness of its own. Events and the current moment go
 * in, actions and notes come out. The caller performs the actions (worker/perform.h) and logs the notes.
 *
 *       idle ──message seen──▶ checking ──▶ waiting ──free──▶ taking ──▶ fencing ──▶ opening ──▶ settling ──▶ draining
 *        ▲                                    ▲ busy: timer                 ▲ roll                              │
 *        └──────────── unlocking ◀────────────┴──────────────────────────── releasing ◀──────────────────────────┘
 *
 * Three more states: backing-off (after a failed disk), stopped (the storage cannot be trusted: exit 74; or the database check
 * failed: exit 2) and done.
 *
 * A consumer belongs to the loop's thread. Times are milliseconds of the boot-time clock, which goes on while the machine
 * sleeps, as a lease does. docs/protocol.md has the reasons for every step.
 */
#ifndef PAWL_WORKER_CONSUMER_H
#define PAWL_WORKER_CONSUMER_H

#include "base.h"
#include "lockstore/acquire.h"
#include "lockstore/wakeup.h"
#include "storage/writer.h"
#include "worker/load.h"

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

/*
 * The actions; one call of perform does each. An action is a sequence that needs no decision of this machine. Where it may be
 * long it looks between its steps at how long it may go on (consumer_until_ms). Only in draining several actions of a type run
 * at the same time: one of each activity, but up to three deletes.
 */
enum action_kind {
  /* activity MAIN */
  ACTION_PEEK,   /* is there a message? YES, NO; REFUSED: the database check failed */
  ACTION_CHECK,  /* ledger, files, ledger again: YES (ledger), CHANGED, REFUSED (ledger did not move), NEWER */
  ACTION_LOOK,   /* may the mutex be taken? YES: it is its turn, NO: busy, and it waits (acquisition), REFUSED */
  ACTION_TAKE,   /* YES, NO: another was faster */
  ACTION_FENCE,  /* YES (ledger as it was), NO, FAILED: not sent; always returns the place */
  ACTION_OPEN,   /* open the file, check it against the ledger: YES, NO: fenced, REFUSED, NEWER */
  ACTION_SETTLE, /* find committed `_id`s in the files, delete them, record that: YES (settled), NO: fenced, STOPPED, REFUSED, NEWER, LEFT
                  */
  ACTION_BEGIN,  /* continue the file, or make and commit a new segment: YES, NO: fenced, STOPPED, NO_SPACE, SPENT, REFUSED, FAILED;
                    UNKNOWN: if `created`, only the commit is open */
  ACTION_APPEND, /* write, sync and commit one block: YES (end), NO: fenced, NO_SPACE, FAILED; UNKNOWN (end): only the commit is open */
  ACTION_COMMIT, /* a commit whose answer is unknown, once more: YES, NO: fenced */
  ACTION_CLOSE,  /* CLOSE, all files, the commit of `clean`: YES, NO: fenced, NO_SPACE, FAILED; UNKNOWN (end): only the commit is open */
  ACTION_UNLOCK, /* YES, NO: the lock was not mine */
  ACTION_LEAVE,  /* leave the wait queue: YES, NO */
  /* activity READ */
  ACTION_READ, /* the next batch of the pass: YES (load, or an error), NO: the pass is over; UNKNOWN: it ended early */
  /* activities DELETE to DELETE_LAST */
  ACTION_DELETE, /* YES, LEFT */
  /* activity RENEW, on a thread of its own */
  ACTION_RENEW, /* YES, NO: lost */
  ACTION_COUNT,
};

enum { DELETES_MAX = 3 }; /* at the same time; in the server more would only wait for each other */
enum activity {
  ACTIVITY_MAIN,
  ACTIVITY_READ,
  ACTIVITY_DELETE,
  ACTIVITY_DELETE_LAST = ACTIVITY_DELETE + DELETES_MAX - 1,
  ACTIVITY_RENEW,
  ACTIVITY_COUNT
};
/* The file system of the directory. Asked once per epoch, before the fence, so that all requests of the epoch agree. */
enum place {
  PLACE_UNASKED,
  PLACE_LOCAL,   /* on a local file system: the guard counts */
  PLACE_NETWORK, /* on any other file system */
};

struct action {
  enum action_kind kind;
  enum activity activity;
  uint64_t number; /* rises with every action of the consumer */
  int64_t epoch;   /* mine; 0: none yet. UNLOCK: the epoch for the wake-up; 0: none */
  struct owner owner;

  struct acquisition acquisition; /* LOOK, TAKE, LEAVE: comes back in the completion; UNLOCK */
  bool calls;                     /* LEAVE: whoever is next is called */
  int64_t epoch_seen;             /* FENCE */
  bool clean_seen;                /* FENCE: the ledger was clean when it was read at that epoch */
  bool vouched_seen;              /* FENCE: and its end was vouched for */
  enum place place;               /* FENCE: the place, if it was asked already; OPEN */
  struct ledger ledger;           /* OPEN, BEGIN: as the fence found it */
  struct ledger_commit commit;    /* BEGIN, APPEND, CLOSE: `after` and what follows from it are filled in when it is known; COMMIT */
  struct committed end;           /* SETTLE */
  int64_t settled;                /* SETTLE: begin after this seq */
  struct load *load;              /* APPEND, DELETE: comes back in the completion */
  bool begin;                     /* READ: a new pass */
  bool glance;                    /* PEEK: a tail poll is enough */
  bool write_close, commits;      /* CLOSE: append CLOSE; commit `clean` */
  bool again;                     /* FENCE: it was sent before, and the answer is unknown */
  bool judge;                     /* CHECK, OPEN, SETTLE, BEGIN: a refusal now is final; also find out whether --adopt may help */
  char missed[FILE_NAME_SIZE];    /* CHECK: the segment that an earlier check missed; "": none */
  bool fresh;                     /* BEGIN: a new segment in any case */
  const char *reason;             /* BEGIN: of a new segment, static text */
  uint8_t uuid[16];               /* BEGIN: of a new segment */
  size_t block_bytes;             /* BEGIN: size of the documents in the first block */
  int64_t wall_us;                /* BEGIN, APPEND, CLOSE: time of the write */
};

enum result {
  RESULT_YES,
  RESULT_NO,
  RESULT_UNKNOWN,  /* the database did not answer */
  RESULT_CHANGED,  /* the ledger moved during the check of the files */
  RESULT_REFUSED,  /* the storage, a document or the database cannot be used */
  RESULT_NEWER,    /* a newer pawl is needed */
  RESULT_NO_SPACE, /* nothing was written */
  RESULT_SPENT,    /* the epoch's segment name is taken */
  RESULT_FAILED,   /* the disk reported an error */
  RESULT_LEFT,     /* a named document is in the queue, and no delete removes it */
  RESULT_STOPPED,  /* it may not go on: the rest was not begun, and what was is undone or harmless */
  RESULT_COUNT,
};

struct completion {
  enum action_kind kind;
  enum activity activity;
  uint64_t number;
  enum result result;
  bool asked;                     /* the result tells whether the database answers */
  struct error error;             /* unless YES or NO; PEEK and READ: if set with YES or NO, it names a document that cannot be taken */
  int64_t sent_ms;                /* TAKE, RENEW: when the request was about to be sent, boot-time clock */
  struct ledger ledger;           /* CHECK, FENCE */
  struct acquisition acquisition; /* LOOK, TAKE, LEAVE */
  bool awaited;                   /* RENEW: a tool waits for the mutex */
  bool glanced;                   /* PEEK: it was a tail poll */
  bool marked;                    /* PEEK: the next one can be a tail poll */
  int64_t took_ms;                /* PEEK, READ: time until the answer */
  enum place place;               /* FENCE */
  int64_t settled;                /* SETTLE YES: the new value */
  bool created;                   /* BEGIN: a new segment, which ends at `end` */
  bool guarded;                   /* BEGIN: the file is local, and its guard is held */
  bool unnamed;                   /* BEGIN: it left a segment of this epoch that the ledger does not name */
  struct committed end;           /* BEGIN, APPEND, CLOSE */
  struct load *load;              /* READ: new; APPEND, DELETE: given back */
  bool judged;                    /* the action's `judge` */
  bool adoptable;                 /* with a refusal: pawl-setup --adopt may help */
  bool missed_is_there;           /* CHECK: the action's `missed` segment exists by now */
};

enum event_kind {
  EVENT_TIMER,      /* some time has passed */
  EVENT_COMPLETION, /* an action has come back */
  EVENT_STOP,       /* finish the current batch and leave */
  EVENT_WAKE,       /* a wake-up: poll, or read the lock, at once; it may be late, doubled or wrong */
  EVENT_WATCH,      /* wake-ups come from now on, or no longer */
  EVENT_COUNT,
};

struct event {
  enum event_kind kind;
  struct completion *completion; /* EVENT_COMPLETION; its load passes to the consumer */
  enum wakeup_about about;       /* EVENT_WAKE */
  struct owner owner;            /* EVENT_WAKE: the acquisition that it is for, unless it is about messages */
  bool watching;                 /* EVENT_WATCH */
};

struct moment {
  int64_t now_ms; /* boot-time clock */
  int64_t wall_us;
  uint8_t random[16]; /* fresh */
};

enum note_level { NOTE_ERROR, NOTE_WARN, NOTE_INFO, NOTE_DEBUG };
struct note {
  enum note_level level;
  const char *event;  /* a static word: "state", "takeover", "no-space", … */
  int64_t epoch, seq; /* the last known values */
  char text[1536];
};

enum { EFFECTS_ACTIONS_MAX = ACTIVITY_COUNT, EFFECTS_NOTES_MAX = 16 };
struct effects {
  struct action actions[EFFECTS_ACTIONS_MAX];
  int action_count;
  struct note notes[EFFECTS_NOTES_MAX];
  int note_count;
  bool drop_read; /* nobody needs the reply of the running READ any more: READ shall end soon, with any result */
};

struct consumer_options {
  int64_t lease_ms, retry_ms, poll_ms, linger_ms, stall_ms;
  int64_t segment_bytes; /* roll when a segment has this size; 0: never */
  int64_t look_share;    /* after a poll that found nothing: pause for this many times its duration; all types share one processor */
  int64_t distrust_ms;   /* how long a check must fail before the failure is believed; and the time between checks while idle */
  /* for texts; borrowed from the caller as long as the consumer lives */
  const char *dir;      /* the directory of the files */
  const char *database; /* the name of the database */
  const char *server;   /* the database's hosts, without user and password */
};

enum { WATCHED_PAUSE_MS = 1000 }; /* while wake-ups come, an idle or waiting consumer polls no more often than this by itself */

enum { LOADS_READY_MAX = 2, LOADS_COMMITTED_MAX = 4 };

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
  int64_t problems[PROBLEM_COUNT];
};

/* What is in the file, and not known to be in the ledger: only the commit is repeated. */
enum uncommitted {
  UNCOMMITTED_NOTHING,
  UNCOMMITTED_SEGMENT,
  UNCOMMITTED_BLOCK,
  UNCOMMITTED_CLEAN, /* nothing more is written; the ledger's `clean` is open */
};

/* The result of the last check of the storage. */
enum storage_view {
  STORAGE_UNSEEN,
  STORAGE_AGREES,
  STORAGE_DISAGREES, /* it does not agree with the ledger, or cannot be read, or not be written to */
  STORAGE_NEWER,     /* the storage, or the ledger, needs a newer pawl */
};

enum leave { LEAVE_NOT, LEAVE_RELEASE, LEAVE_ROLL, LEAVE_ABANDON };

struct consumer {
  char type[TYPE_BYTES_MAX + 1];
  struct consumer_options options;
  enum consumer_state state;
  bool stopping;
  int64_t stop_ms; /* when EVENT_STOP came */
  bool refused;    /* stopped because the database check failed, not because of the storage */
  uint64_t number; /* number of the last action */
  int64_t now_ms;  /* time of the last event */

  struct {
    bool running, dropped; /* dropped: the consumer does not wait for the reply any more */
    enum action_kind kind;
    uint64_t number;
    int64_t started_ms;
  } activity[ACTIVITY_COUNT];

  int64_t next_ms;     /* MAIN starts nothing before */
  int64_t unknown_row; /* UNKNOWN results in a row, for the back-off */
  bool hears;          /* wake-ups come */
  bool wakeable;       /* next_ms is the end of a regular pause, which a wake-up may cut short */
  bool woken;          /* the running poll (of MAIN or READ) may be older than a wake-up: poll again at once */
  int64_t thorough_ms; /* when the next poll from the beginning is due; until then only tail polls */

  /* on the way to the lock */
  struct acquisition acquisition;
  int64_t look_ms;               /* WAITING: when the next look is due */
  bool peek_first;               /* WAITING: poll for a message before that */
  bool check_fresh;              /* the check was made after the mutex was last seen busy */
  int64_t let_go_ms;             /* time of the last wake-up for the mutex: the next messages are for this consumer to write */
  bool looked_free;              /* it is its turn */
  int64_t empty_until_ms;        /* how long the last pass counts as a poll that found nothing; -1: no such pass, or a wake-up came since */
  int64_t peeked_ms;             /* time of the last poll */
  bool empty;                    /* and it found nothing */
  int64_t seq_seen;              /* in the ledger, or committed by me; for the notes */
  int64_t epoch_seen;            /* read by the check */
  bool clean_seen, vouched_seen; /* at that epoch */
  int64_t fence_until_ms;        /* FENCING: until then an unknown fence is asked again */
  int64_t open_refused_since_ms; /* OPEN has failed since then, although the check succeeded; -1: it has not */
  uint64_t open_refused_link;    /* the committed end at that failure; if others move the end, the file is in order for them */
  int64_t give_up_row; /* takes and fences without an answer, and epochs that could not read the queue, in a row; for the back-off */
  bool said_lock, said_stall;

  /* the storage */
  enum storage_view storage;
  struct error storage_why;          /* DISAGREES, NEWER */
  int64_t storage_ms;                /* the next check, while idle or waiting; INT64_MAX: after the first poll */
  char storage_file[FILE_NAME_SIZE]; /* DISAGREES: the current segment then */
  int64_t distrust_since_ms;         /* checks have failed since then, with a message waiting at first; -1: no */

  /* the lock */
  bool locked;  /* the lock document may be there */
  bool lost;    /* and it is known not to be mine any more */
  bool awaited; /* a tool waits for it */
  struct owner owner;
  int64_t deadline_ms;   /* two thirds of the lease: no new block and no delete after that */
  int64_t renew_ms;      /* when the next renewal is due */
  uint64_t taken_number; /* number of the TAKE: a renewal with a lower number belongs to an earlier lock */
  int64_t epoch_left;    /* the last epoch under this lock, once its end is known to be clean; 0: none */

  /* the epoch */
  int64_t epoch; /* mine; 0: none */
  enum place place;
  struct ledger before;       /* as the fence found it */
  struct committed committed; /* the known committed end */
  int64_t settled;            /* end of the unbroken prefix of acknowledged deletes; without an epoch: the last value seen */
  bool rolling;               /* the first block makes a new segment, reason "roll" */

  /* settling */
  int64_t settle_refused_since_ms; /* SETTLE has been refused since then; -1: it has not */

  /* draining: three activities at the same time */
  enum leave leave;
  const char *leave_why;     /* static text */
  enum consumer_state after; /* UNLOCKING: the next state */
  bool begun;                /* it is decided which file this epoch writes */
  bool guarded;              /* that file is local and I hold its guard: commits vouch for the end */
  bool wrote;                /* this epoch has written a block */
  bool unnamed;              /* a segment of this epoch is there that the ledger does not name */
  struct load *hand;         /* the load being written */
  enum uncommitted uncommitted;
  struct committed written;            /* where what is uncommitted ends */
  struct load *ready[LOADS_READY_MAX]; /* read and not yet written */
  int ready_count;
  bool pass_open;
  int64_t pass_messages; /* read in this pass */
  int64_t read_ms;       /* no pass begins before */
  int64_t read_unknown_row;
  struct load *committed_loads[LOADS_COMMITTED_MAX]; /* committed and not yet deleted; oldest first */
  int committed_count;
  int64_t delete_ms; /* no delete begins before (back-off) */
  int64_t delete_unknown_row;
  int64_t empty_since_ms; /* the queue has been empty since; -1: it is not */
  bool said_no_space;
  int64_t disk_failures; /* failures in a row, for the back-off */

  struct consumer_counts counts;
  int64_t commit_ms; /* when a block was last committed; -1: none was */
};

/* Reads nothing and starts nothing; the first event begins the work. */
void consumer_init(struct consumer *consumer, const char *type, const struct consumer_options *options);
/* Frees what the consumer still holds. Only when no action is running. */
void consumer_deinit(struct consumer *consumer);

/*
 * Handles one event. *effects is overwritten: the caller starts the actions and logs the notes. A completion with another
 * number than the awaited one is only freed.
 */
void consumer_handle(struct consumer *consumer, const struct event *event, const struct moment *moment, struct effects *effects);

/* When the next EVENT_TIMER is due at the latest; INT64_MAX: only after a completion. */
int64_t consumer_wake_ms(const struct consumer *consumer);

/* How long the running action may go on to its next step: to two thirds of the lease; 0: asked to stop, or the lock is lost. */
int64_t consumer_until_ms(const struct consumer *consumer);

/* Whether the consumer has the lock, as far as it knows. */
bool consumer_holds(const struct consumer *consumer);
/* While it has the lock: when the lease ends unless it is renewed. */
int64_t consumer_lease_end_ms(const struct consumer *consumer);
/* Whether the last poll found nothing. */
bool consumer_sees_nothing(const struct consumer *consumer);

/* Whether the last check of the storage succeeded, and no action hangs. False: `why` is filled, and names the type. */
MUST_CHECK bool consumer_trusts(const struct consumer *consumer, int64_t now_ms, struct error *why);

/* Idle or waiting, and the last poll found nothing. The next poll may be under way: of many types some always poll. */
bool consumer_is_quiet(const struct consumer *consumer);
/* Whether it is stopped or done, and runs nothing; a renewal may still run, because its answer does not matter any more. */
bool consumer_is_over(const struct consumer *consumer);

#endif
