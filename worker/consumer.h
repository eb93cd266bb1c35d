/*
 * consumer: the state machine of one type. Pure: no call, no clock, no randomness of its own. Events and the moment go in,
 * actions and notes come out; somebody else performs the actions (worker/perform.h) and writes the notes down.
 *
 *      idle ──message seen──▶ checking ──▶ waiting ──free──▶ taking ──▶ fencing ──▶ opening ──▶ settling ──▶ draining
 *       ▲                                    ▲ busy: timer                 ▲ roll                              │
 *       └──────────── unlocking ◀────────────┴──────────────────────────── releasing ◀──────────────────────────┘
 *
 * Beside these: backing-off (after a failed disk), stopped (the storage cannot be trusted: exit 74) and done.
 *
 * A consumer belongs to the loop's thread. Times are milliseconds of the boot-time clock, which goes on while the machine
 * sleeps: a lease does too. docs/protocol.md has the reasons for every step.
 */
#ifndef PAWL_WORKER_CONSUMER_H
#define PAWL_WORKER_CONSUMER_H

#include "base.h"
#include "lockstore/lockstore.h"
#include "lockstore/wakeup.h"
#include "storage/writer.h"
#include "worker/load.h"

enum consumer_state {
  STATE_IDLE,        /* looks at the queue every poll_ms, or when it is woken */
  STATE_CHECKING,    /* does the storage agree with the ledger? */
  STATE_WAITING,     /* looks at the mutex every retry_ms, or when it is woken */
  STATE_TAKING,      /* inserts the lock document */
  STATE_FENCING,     /* moves the ledger to the next epoch */
  STATE_OPENING,     /* opens the file afresh and checks it again */
  STATE_SETTLING,    /* deletes what the last holder committed and did not delete */
  STATE_DRAINING,    /* reads, writes, deletes */
  STATE_RELEASING,   /* CLOSE, and the ledger's `clean` */
  STATE_UNLOCKING,   /* deletes the lock document */
  STATE_BACKING_OFF, /* a write or sync failed */
  STATE_STOPPED,     /* the storage cannot be trusted */
  STATE_DONE,        /* asked to stop, and nothing is left to do */
  STATE_COUNT,
};
const char *consumer_state_name(enum consumer_state state);

/* What can be done, each by one call of perform; several of a type run at once only in draining, one of each activity, but for
 * deletes: three. */
enum action_kind {
  /* activity MAIN */
  ACTION_PEEK,          /* is there a message? YES, NO; REFUSED: the database is not as it should be */
  ACTION_CHECK,         /* ledger, files, ledger again: YES (ledger), CHANGED, REFUSED (counts), NEWER */
  ACTION_LOOK,          /* at the mutex: YES (view), NO: free, REFUSED */
  ACTION_TAKE,          /* steal if asked to, insert: YES, NO: busy */
  ACTION_FENCE,         /* YES (ledger as it was), NO, FAILED: not sent; in any case the place */
  ACTION_OPEN,          /* the file, against the ledger: YES, NO: fenced, REFUSED, NEWER */
  ACTION_SETTLE_FIND,   /* `_id`s from the files: YES (load), REFUSED */
  ACTION_SETTLE_DELETE, /* YES, REFUSED: what it names is there, and stays */
  ACTION_SETTLE_RECORD, /* YES, NO: fenced */
  ACTION_GUARD,         /* YES (ground), FAILED */
  ACTION_VERIFY,        /* is the epoch still mine? YES, NO */
  ACTION_CUT,           /* YES, FAILED */
  ACTION_CREATE,        /* YES (end), NO: fenced, NO_SPACE, SPENT, REFUSED, FAILED */
  ACTION_APPEND,        /* write and sync one block: YES (end), NO_SPACE, FAILED */
  ACTION_COMMIT,        /* YES, NO: fenced */
  ACTION_CLOSE,         /* CLOSE if asked to, and all that is open: YES (end), NO_SPACE, FAILED */
  ACTION_UNLOCK,        /* YES, NO: was not mine */
  /* activity READ */
  ACTION_READ, /* the next batch of the pass: YES (load, or an error), NO: the pass is over; UNKNOWN: it ended early */
  /* activities DELETE to DELETE_LAST */
  ACTION_DELETE, /* YES, REFUSED: what it names is there, and stays */
  /* activity RENEW, on a thread of its own */
  ACTION_RENEW, /* YES, NO: lost */
  ACTION_COUNT,
};

enum { DELETES_MAX = 3 }; /* beside one another; more only wait for each other in the server */
enum activity {
  ACTIVITY_MAIN,
  ACTIVITY_READ,
  ACTIVITY_DELETE,
  ACTIVITY_DELETE_LAST = ACTIVITY_DELETE + DELETES_MAX - 1,
  ACTIVITY_RENEW,
  ACTIVITY_COUNT
};
/* Does its result tell whether the database answers? Not READ's: a cursor may end for reasons of its own. */
bool action_asks_database(enum action_kind kind);

/* Where the directory is. Asked once an epoch, before the fence, so that all its requests say the same. */
enum place {
  PLACE_UNASKED,
  PLACE_LOCAL,   /* on a local file system: the guard counts */
  PLACE_NETWORK, /* on any other */
};

struct action {
  enum action_kind kind;
  enum activity activity;
  uint64_t number; /* rises with every action of the consumer */
  int64_t epoch;   /* mine; 0: none yet. UNLOCK: to be told to who is woken; 0: none */
  struct owner owner;

  bool steal;                  /* TAKE: first delete the lock of `seen` */
  struct owner seen;           /* TAKE */
  int64_t epoch_seen;          /* FENCE */
  bool clean_seen;             /* FENCE: the ledger was clean when it was read at that epoch, */
  bool vouched_seen;           /* FENCE: and its end vouched for */
  enum place place;            /* FENCE: as asked, if it was; OPEN */
  struct ledger ledger;        /* OPEN: as the fence found it */
  struct ledger_commit commit; /* COMMIT */
  struct committed end;        /* SETTLE_FIND */
  int64_t settled;             /* SETTLE_FIND: from the next one on; SETTLE_RECORD */
  struct load *load;           /* APPEND, DELETE, SETTLE_DELETE: comes back in the completion */
  bool begin;                  /* READ: a new pass */
  bool glance;                 /* PEEK: a look above what was read last will do */
  bool wait;                   /* LOOK: and where it is busy, ask to be woken */
  bool write_close, discard;   /* CLOSE: append CLOSE; unlink the segment whose commit was never sent */
  bool again;                  /* FENCE, COMMIT: it was sent, and the answer is not known */
  bool judge; /* CHECK, OPEN, SETTLE_FIND, CREATE: what is refused now is believed; say as well whether it may be adopted */
  char missed[FILE_NAME_SIZE]; /* CHECK: the segment that an earlier look was refused with; "": none */
  const char *reason;          /* CREATE: static text */
  uint8_t uuid[16];            /* CREATE */
  size_t block_bytes;          /* CREATE: of the documents that come first */
  int64_t wall_us;             /* CREATE, APPEND, CLOSE: time of the write */
};

enum result {
  RESULT_YES,
  RESULT_NO,
  RESULT_UNKNOWN,  /* the database did not answer */
  RESULT_CHANGED,  /* the ledger moved while the files were looked at */
  RESULT_REFUSED,  /* the storage (or a document) is not as it should be */
  RESULT_NEWER,    /* a newer pawl is needed */
  RESULT_NO_SPACE, /* nothing was written */
  RESULT_SPENT,    /* the epoch's segment name is taken */
  RESULT_FAILED,   /* the disk reported an error */
  RESULT_COUNT,
};

struct completion {
  enum action_kind kind;
  enum activity activity;
  uint64_t number;
  enum result result;
  struct error error;          /* unless YES or NO; PEEK and READ: with these, if set, it names a document that cannot be taken */
  int64_t sent_ms;             /* TAKE, RENEW: before the request was sent, boot-time clock */
  struct ledger ledger;        /* CHECK, FENCE */
  struct lock_view view;       /* LOOK */
  bool glanced;                /* PEEK: it only glanced */
  bool marked;                 /* PEEK: the next one can */
  int64_t took_ms;             /* PEEK, READ: until the answer */
  enum place place;            /* FENCE */
  struct writer_ground ground; /* GUARD */
  struct committed end;        /* CREATE, APPEND, CLOSE */
  struct load *load;           /* READ, SETTLE_FIND: new; APPEND, DELETE, SETTLE_DELETE: given back */
  bool judged;                 /* as the action's `judge` */
  bool adoptable;              /* and refused: pawl-setup --adopt may help */
  bool missed_is_there;        /* CHECK */
  bool unnamed;                /* CLOSE: a segment of this epoch that the ledger does not name is left */
};

enum event_kind {
  EVENT_TIMER,      /* some time has passed */
  EVENT_COMPLETION, /* an action came back */
  EVENT_STOP,       /* finish the batch in hand and leave */
  EVENT_WAKE,       /* somebody says that it is worth while to look now; it may be late, doubled or wrong */
  EVENT_WATCH,      /* wake-ups about messages, or those about the lock, come from now on, or do no longer */
  EVENT_COUNT,
};

struct event {
  enum event_kind kind;
  struct completion *completion; /* EVENT_COMPLETION; its load passes to the consumer */
  enum wakeup_about about;       /* EVENT_WAKE; EVENT_WATCH: WAKEUP_MESSAGE or WAKEUP_LOCK */
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
  int64_t epoch, seq; /* the last known */
  char text[1536];
};

enum { EFFECTS_ACTIONS_MAX = ACTIVITY_COUNT, EFFECTS_NOTES_MAX = 16 };
struct effects {
  struct action actions[EFFECTS_ACTIONS_MAX];
  int action_count;
  struct note notes[EFFECTS_NOTES_MAX];
  int note_count;
  bool drop_read; /* the reply that READ waits for is not wanted any more: it is to come back soon, whatever it says */
};

struct consumer_options {
  int64_t lease_ms, retry_ms, poll_ms, linger_ms, stall_ms;
  int64_t segment_bytes; /* roll when a segment is as long; 0: never */
  int64_t look_share;    /* looks that find nothing take one part of the time in so many; the process's types share one processor */
  int64_t distrust_ms;   /* for how long a failing check must be seen before it is believed; and how often an idle one looks */
  /* for people to read; the caller's, as long as the consumer lives */
  const char *dir;      /* where the files are */
  const char *database; /* the name of the database */
  const char *server;   /* and where that is: hosts, without user and password */
};

enum { WATCHED_PAUSE_MS = 1000 }; /* while wake-ups come, an idle or waiting consumer looks by itself no more often */

enum { LOADS_READY_MAX = 2, LOADS_COMMITTED_MAX = 4 };

/* What may go wrong: the events of warnings and errors in the notes. */
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

/* What this consumer has done since it began; these only rise. */
struct consumer_counts {
  int64_t documents; /* committed */
  int64_t messages;  /* in them: of a bundle each */
  int64_t blocks;
  int64_t bytes;        /* of the file, by these blocks */
  int64_t deleted;      /* documents, those left behind by another holder too */
  int64_t acquisitions; /* of the lock and, with it, an epoch; a roll is none */
  int64_t segments;     /* made */
  int64_t problems[PROBLEM_COUNT];
};

/* How far the block in hand is. */
enum write_stage {
  STAGE_NONE,
  STAGE_GUARD,
  STAGE_VERIFY,
  STAGE_CUT,
  STAGE_CREATE,
  STAGE_COMMIT_SEGMENT,
  STAGE_APPEND,
  STAGE_COMMIT,
};

/* What the last look at the storage has shown. */
enum storage_view {
  STORAGE_UNSEEN,
  STORAGE_AGREES,
  STORAGE_DISAGREES, /* with the ledger; or it cannot be read, or not be written to */
  STORAGE_NEWER,     /* it, or the ledger, needs a newer pawl */
};

enum leave { LEAVE_NOT, LEAVE_RELEASE, LEAVE_ROLL, LEAVE_ABANDON };

struct consumer {
  char type[TYPE_BYTES_MAX + 1];
  struct consumer_options options;
  enum consumer_state state;
  bool stopping;
  int64_t stop_ms; /* when that was asked */
  bool refused;    /* stopped because the database is not as it should be, not because of the storage */
  uint64_t number; /* of the last action */
  int64_t now_ms;  /* of the last event */

  struct {
    bool running, dropped; /* its reply is not waited for any longer */
    enum action_kind kind;
    uint64_t number;
    int64_t started_ms;
  } activity[ACTIVITY_COUNT];

  int64_t next_ms;     /* nothing of MAIN starts before */
  int64_t unknown_row; /* UNKNOWN results in a row: the back-off */
  bool hears_messages; /* wake-ups about messages come */
  bool hears_locks;    /* and about the lock */
  bool wakeable;       /* next_ms is the end of a regular pause, which a wake-up may cut short */
  bool woken;          /* what MAIN, or READ, is looking at now may be older than a wake-up: another look follows at once */
  int64_t thorough_ms; /* the next look at the queue from its beginning; until then it glances */

  /* on the way to the lock */
  bool peek_first;   /* WAITING: see whether there still is a message before the mutex is looked at */
  bool look_first;   /* WAITING: woken for the mutex, so that comes first */
  bool look_woken;   /* WAITING: the last look at the mutex was made because of that */
  bool in_row;       /* WAITING: and the one before it found it busy, and asked to be woken */
  bool check_fresh;  /* the check was made after the mutex was last seen busy */
  int64_t let_go_ms; /* when it last was woken for the mutex: what comes in next is for it to write */
  bool looked_free;  /* the mutex was seen free (or stealable) after waiting */
  bool steal;        /* it is there, but expired: of `seen` */
  struct owner seen;
  int64_t empty_until_ms; /* by the last pass, which found nothing; -1: by no pass, or somebody has said since that there is something */
  int64_t peeked_ms;      /* when the queue was last looked at */
  bool empty;             /* and nothing was in it */
  int64_t seq_seen;       /* in the ledger, or committed by me: for the notes */
  int64_t epoch_seen;     /* by the check */
  bool clean_seen, vouched_seen; /* at that epoch */
  int64_t fence_until_ms;        /* FENCING: for so long what is not known is asked again */
  int64_t open_refused_since_ms; /* OPEN has failed since, while the check said yes; -1: it has not */
  uint64_t open_refused_link;    /* at that end: when others have moved it since, the file was in order for them */
  int64_t give_up_row;           /* in a row: takes and fences without an answer, and an epoch that could not read: the back-off */
  bool said_lock, said_stall;

  /* the storage */
  enum storage_view storage;
  struct error storage_why;          /* DISAGREES, NEWER */
  int64_t storage_ms;                /* the next look, while idle or waiting; INT64_MAX: after the first look at the queue */
  char storage_file[FILE_NAME_SIZE]; /* DISAGREES: with this segment as the current one */
  int64_t distrust_since_ms;         /* it has disagreed since, and at first a message waited; -1: no */

  /* the lock */
  bool locked; /* the lock document may be there */
  bool lost;   /* and is known not to be mine any more */
  struct owner owner;
  int64_t deadline_ms;   /* two thirds of the lease: no new block and no delete after that */
  int64_t renew_ms;      /* next renewal */
  uint64_t taken_number; /* the TAKE: a renewal with a lower number was for an earlier lock */
  int64_t epoch_left;    /* the last under it, once its end is known to be clean; 0: none */

  /* the epoch */
  int64_t epoch; /* mine; 0: none */
  enum place place;
  struct ledger before;       /* as the fence found it */
  struct committed committed; /* known to be */
  int64_t settled;            /* end of the unbroken prefix of acknowledged deletes; without an epoch: when last seen */
  bool rolling;               /* the first block makes a new segment, reason "roll" */

  /* settling */
  struct load *settle;
  int64_t settle_refused_since_ms; /* SETTLE_FIND has failed since; -1: it has not */
  enum { SETTLE_FIND, SETTLE_DELETE, SETTLE_RECORD } settle_stage;

  /* draining: three activities beside one another */
  enum leave leave;
  enum consumer_state after; /* UNLOCKING: where to go then */
  bool begun;                /* the file of this epoch is decided on */
  bool guarded;              /* and it is local and I hold its guard: commits vouch for it */
  bool wrote;                /* a block was written in this epoch */
  enum write_stage stage;
  struct load *hand;                   /* the load being written */
  struct committed written;            /* COMMIT: the end to be committed */
  bool commit_sent;                    /* COMMIT_SEGMENT: the segment may be named by the ledger */
  struct load *ready[LOADS_READY_MAX]; /* read and not yet written */
  int ready_count;
  bool pass_open;
  int64_t pass_messages; /* read in this pass */
  int64_t read_ms;       /* no pass begins before */
  int64_t read_unknown_row;
  struct load *committed_loads[LOADS_COMMITTED_MAX]; /* and not yet deleted; oldest first */
  int committed_count;
  int64_t delete_ms; /* no delete before (back-off) */
  int64_t delete_unknown_row;
  int64_t empty_since_ms; /* the queue has been empty since; -1: it is not */
  bool said_no_space;
  int64_t disk_failures; /* in a row: the back-off */

  /* releasing */
  enum { RELEASE_CLOSE, RELEASE_CLEAN } release_stage;
  bool closed_clean; /* CLOSE is written and synced */
  bool unnamed;

  struct consumer_counts counts;
  int64_t commit_ms; /* when a block was last committed; -1: none was */
};

/* Reads nothing and starts nothing: that begins with the first event. */
void consumer_init(struct consumer *consumer, const char *type, const struct consumer_options *options);
/* Frees what it still holds. Only when nothing is running any more. */
void consumer_deinit(struct consumer *consumer);

/*
 * The one entry. *effects is overwritten: the actions are to be started, the notes written down. A completion whose number is not
 * the awaited one only has its memory freed.
 */
void consumer_handle(struct consumer *consumer, const struct event *event, const struct moment *moment, struct effects *effects);

/* When to send the next EVENT_TIMER at the latest; INT64_MAX: only after a completion. */
int64_t consumer_wake_ms(const struct consumer *consumer);

/* It has the lock, as far as it knows. */
bool consumer_holds(const struct consumer *consumer);
/* While it holds: when the lease is over unless it is renewed. */
int64_t consumer_lease_end_ms(const struct consumer *consumer);
/* Nothing was in the queue when it last looked. */
bool consumer_sees_nothing(const struct consumer *consumer);

/* The last look at the storage was content, and none hangs. False: `why` is filled, and names the type. */
MUST_CHECK bool consumer_trusts(const struct consumer *consumer, int64_t now_ms, struct error *why);

/* Idle, nothing running, and the last look at the queue found nothing. */
bool consumer_is_quiet(const struct consumer *consumer);
/* Stopped or done, and nothing running but perhaps a renewal, whose answer does not matter any more. */
bool consumer_is_over(const struct consumer *consumer);

#endif
