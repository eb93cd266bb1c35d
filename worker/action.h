/*
 * action: what the consumer wants done, and how it went. The consumer (worker/consumer.h) starts actions and gets completions;
 * worker/perform.h performs one. Both know nothing more of each other.
 *
 * Plain values. An item belongs to the owner of the action or the completion. Times are milliseconds of the boot-time clock, which
 * goes on while the machine sleeps, as a lease does.
 */
#ifndef PAWL_WORKER_ACTION_H
#define PAWL_WORKER_ACTION_H

#include "base.h"
#include "lockstore/acquire.h"
#include "lockstore/ledger.h"
#include "worker/latency.h"
#include "worker/work_item.h"

/*
 * The actions; one call of perform does each. An action is a sequence that needs no decision of this machine. Where it may be
 * long it looks between its steps at how long it may go on (consumer_until_ms). One action of an activity runs at
 * a time, but up to three deletes. RENEW runs beside the others wherever the lock is held, READ and deletes only in draining.
 */
enum action_kind {
  /* activity MAIN */
  ACTION_POLL,   /* is there a message? YES, NO; REFUSED: the database check failed */
  ACTION_CHECK,  /* ledger, files, ledger again: YES (ledger), CHANGED, REFUSED (ledger did not move), NEWER, PAUSED (no look at files) */
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
  ACTION_LEAVE_QUEUE, /* leave the wait queue: YES, NO */
  /* activity READ */
  ACTION_READ, /* the next batch of the pass: YES (item, or an error), NO: the pass is over; UNKNOWN: it ended early */
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
  int64_t lease_ms; /* of the lock that it takes or renews; it may change between two actions */

  struct acquisition acquisition; /* LOOK, TAKE, LEAVE: comes back in the completion; UNLOCK */
  bool calls;                     /* LEAVE: the next waiter is called */
  int64_t epoch_seen;             /* FENCE */
  bool clean_seen;                /* FENCE: the ledger was clean when it was read at that epoch */
  bool vouched_seen;              /* FENCE: and its end was vouched for */
  enum place place;               /* FENCE: the place, if it was asked already; OPEN */
  struct ledger ledger;           /* OPEN, BEGIN: as the fence found it */
  struct ledger_commit commit;    /* BEGIN, APPEND, CLOSE: `after` and what follows from it are filled in when it is known; COMMIT */
  struct committed end;           /* SETTLE */
  int64_t settled;                /* SETTLE: begin after this seq */
  struct work_item *item;         /* APPEND, DELETE: comes back in the completion */
  bool begin;                     /* READ: a new pass */
  enum queue_source source;       /* READ, with `begin`: of this collection; SETTLE: where what is committed lies */
  uint64_t read_at;               /* READ, with `begin`, SOURCE_OWN: at the cluster time of the pass of `messages` before it */
  bool own;                       /* POLL: look in the type's own collection, too */
  bool asks_own;                  /* POLL: whether it has one is not known yet: ask the ledger */
  int64_t ask_documents;          /* READ: ask the server for no more at once; 0: take what is left of the last answer (jobs.h) */
  bool tail;                      /* POLL: a tail poll is enough */
  bool idle;                      /* POLL: of a type that does nothing else */
  bool write_close;               /* CLOSE: append CLOSE first. The commit follows if it sets `clean` */
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
  RESULT_PAUSED,   /* the ledger says that the type is paused */
  RESULT_NO_SPACE, /* nothing was written */
  RESULT_SPENT,    /* the epoch's segment name is taken */
  RESULT_FAILED,   /* the disk reported an error */
  RESULT_LEFT,     /* no delete removes what is named: a document stays in the queue, or the database check failed */
  RESULT_STOPPED,  /* it may not go on: the rest was not begun, and what was is undone or harmless */
  RESULT_COUNT,
};

struct completion {
  enum action_kind kind;
  enum activity activity;
  uint64_t number;
  enum result result;
  bool asked;                     /* the result tells whether the database answers */
  struct error error;             /* unless YES or NO; POLL and READ: if set with YES or NO, it names a document that cannot be taken */
  int64_t lease_ms;               /* the action's */
  int64_t sent_ms;                /* TAKE, RENEW: when the request was about to be sent, boot-time clock */
  struct ledger ledger;           /* CHECK, FENCE */
  struct acquisition acquisition; /* LOOK, TAKE, LEAVE */
  bool awaited;                   /* RENEW: a tool waits for the mutex */
  uint64_t read_at;               /* READ: the cluster time of the pass; 0: it is not known, or there is none */
  bool own;                       /* POLL, with asks_own: it has its own collection, and that was looked in */
  bool tail;                      /* POLL: it was a tail poll */
  bool tail_next;                 /* POLL: the next one can be a tail poll */
  int64_t took_ms;                /* POLL, READ: time until the answer, */
  int64_t took_types;             /* POLL: the number of types that it was made for; 0: one */
  int64_t took_us[LATENCIES_PERFORMED]; /* BEGIN, APPEND, COMMIT, CLOSE, DELETE: how long each of these took; 0: it was not done */
  enum place place;                     /* FENCE */
  int64_t settled;                      /* SETTLE YES: the new value */
  bool created;                         /* BEGIN: a new segment, which ends at `end` */
  bool guarded;                         /* BEGIN: the file is local, and its guard is held */
  bool unnamed;                         /* BEGIN: it left a segment of this epoch that the ledger does not name */
  struct committed end;                 /* BEGIN, APPEND, CLOSE */
  int64_t answer_bytes;                 /* READ: of the last answer of the pass, as long as documents are left in it */
  int64_t left_bytes;                   /* READ: of these documents */
  struct work_item *item;               /* READ: new; APPEND, DELETE: given back */
  bool judged;                          /* the action's `judge` */
  bool adoptable;                       /* with a refusal: pawl-setup --adopt may help */
  bool missed_is_there;                 /* CHECK: the action's `missed` segment exists by now */
};

#endif
