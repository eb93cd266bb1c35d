/*
 * private: the inside of a handle. Shared by the files of lock/; programs include pawl/lock.h.
 *
 * pawl->mutex guards all of it, but for a set's attempt while the set runs, and the fields that are atomic. It is never held
 * while a request is under way. seam.h has what differs between a real database and the one in memory.
 */
#ifndef PAWL_LOCK_PRIVATE_H
#define PAWL_LOCK_PRIVATE_H

#include "lock/attempt.h"
#include "lock/jobs.h"
#include "lock/pawl/lock.h"
#include "lockstore/wakeup.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

enum { RELEASE_MS = 5000 }; /* so long an answer is waited for */

/* WAITS until its set is done; then HELD, or it is gone. LOST, too, stays until the user releases it. */
enum hold_state { HOLD_WAITS, HOLD_HELD, HOLD_LOST, HOLD_ENDS };

/*
 * What a hold's id leads to: its low bits are the cell's place. A cell is never freed or moved, so pawl_left_ms reads it without the mutex.
 */
enum { CELL_BITS = 20, CHUNK_CELLS = 1024, CHUNKS_MAX = (1 << CELL_BITS) / CHUNK_CELLS };
struct cell {
  _Atomic pawl_hold id;     /* 0: free */
  _Atomic int64_t until_ms; /* it is good until then, boot-time clock; 0: not held, or lost */
  struct hold *hold;
  uint32_t place;
  struct cell *next; /* while it is free */
};

struct hold {
  struct cell *cell;
  LIST_ENTRY(hold) all;
  TAILQ_ENTRY(hold) told; /* in pawl->told while it has events */
  unsigned events;        /* a bit for each pawl_event_kind that the user has not seen yet */
  struct job job;         /* the release */
  struct set *set;        /* WAITS; otherwise NULL */
  enum hold_state state;
  int pins;              /* requests under way that name it */
  bool begun;            /* by a call that only begins: events tell how it goes on */
  bool waited;           /* the user has heard that it waits */
  bool awaited;          /* a thread is in a call for it, and reads `result` */
  bool over;             /* nothing of it is left but what the user has not heard yet */
  bool repeats;          /* the release was sent before, and had no answer */
  bool named;            /* its name is in by_name: this handle takes it no second time */
  enum pawl_result away; /* the last request for it had no answer, or was refused: why in `text`; PAWL_OK: it had one */
  int64_t warned_ms;     /* when a wake-up said that it is lost; 0: none did, or it was refuted */
  char *why;             /* that wake-up says that it was broken, by whom and why; otherwise NULL */
  int fd;                /* of pawl_hold_fd; -1: not asked for */
  int slots, slot;
  struct owner owner;
  int64_t token, sent_ms;
  int64_t renew_ms; /* when the next renewal is due */
  int64_t end_ms;   /* of longest_ms; INT64_MAX: none */
  int64_t until_ms; /* ENDS: no answer is waited for after that */
  enum pawl_reason reason;
  enum pawl_result result;
  char *text;                     /* more about `reason` or `result`; NULL: nothing */
  struct document_want *document; /* NULL: it is a lock */
  const char *name;               /* = bytes; the key of by_name. Of a document: its collection */
  char bytes[];
};

/* A take under way: of one lock or several, in the order of their names. */
struct set {
  struct job job;
  LIST_ENTRY(set) all;
  struct attempt attempt; /* of holds[at] */
  size_t count, at;
  int64_t longest_ms, deadline_ms; /* boot-time clock; INT64_MAX: none */
  bool tries;                      /* does not wait */
  bool runs;                       /* a thread is in a step */
  bool awaited;                    /* a thread is in a call for it */
  bool done;                       /* `result` stands; what is left to do is to back out */
  bool left;                       /* and that is done */
  struct error holder;             /* who held it at the last look, for people; empty: not known */
  bool near;                       /* the front of the wait queue */
  bool woken;                      /* by `wakeup`, since the last step began */
  struct wakeup wakeup;
  struct owner owner; /* the attempt's, as its last step began */
  enum pawl_result result;
  struct pawl_error error; /* of the last step that had no answer, or of the result */
  struct hold *holds[];
};

struct pawl {
  const _Atomic bool *mine; /* false in a child: a page that fork wipes */
  int64_t lease_ms, retry_ms;
  struct lockstore *store;
  struct lock_holder holder;

  pthread_mutex_t mutex;
  struct cell *_Atomic chunks[CHUNKS_MAX]; /* each of CHUNK_CELLS */
  struct cell *free_cells;
  uint32_t cell_count;
  uint64_t last_number;
  void *by_name;    /* a tree of holds, of tsearch */
  size_t job_count; /* holds and sets: each may have one in `jobs` */
  LIST_HEAD(, hold) holds;
  LIST_HEAD(, set) sets;
  struct jobs jobs;
  struct job renewal; /* due when the earliest hold is; run beside the jobs */
  TAILQ_HEAD(told, hold) told;
  int fd;            /* of pawl_fd; -1: no events are kept */
  bool listening;    /* wake-ups come */
  struct seam *seam; /* of seam.h */
};

/* ---- handle.c ---- */

/* False: it is a parent's handle; `error` says so. The first call of every function of the API. */
bool handle_is_mine(const struct pawl *pawl, struct pawl_error *error);
/* Without a store and a seam. *all: the options, those that were not given with their defaults. */
enum pawl_result handle_new(const struct pawl_options *given, struct pawl_options *all, struct pawl **pawl, struct pawl_error *error);
void handle_free(struct pawl *pawl);
enum pawl_result result_set(struct pawl_error *error, enum pawl_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The result for a request that gave UNKNOWN or REFUSED. */
enum pawl_result result_of_error(const struct error *from, bool refused);

/* ---- holds.c ---- */

/* NULL: no memory. */
struct hold *hold_new(struct pawl *pawl, const char *name, int slots, struct document_want *document);
void document_want_free(struct document_want *document); /* NULL is allowed */
struct hold *hold_find(const struct pawl *pawl, pawl_hold id);
bool hold_has_name(const struct pawl *pawl, const char *name);
/* Nothing is left of it: `kind` tells the user, if it was begun by a call that only begins. */
void hold_end(struct pawl *pawl, struct hold *hold, enum pawl_event_kind kind, enum pawl_result result, const char *text);
/* Frees it if it is over and nothing needs it any more: no request, no thread, and no event that the user has not seen. */
void hold_drop(struct pawl *pawl, struct hold *hold);
/* Whatever needs it. */
void hold_free(struct pawl *pawl, struct hold *hold);
/* More about its `reason` or `result`: copied. */
void hold_text(struct hold *hold, const char *text);
/* From now on it is held, as the attempt has taken it. */
void hold_taken(struct pawl *pawl, struct hold *hold, const struct attempt *attempt, int64_t longest_ms);
/* A wake-up says that it is lost: its next renewal tells. `why`: copied; empty: it was not broken. */
void hold_warned(struct pawl *pawl, struct hold *hold, const char *why);
/* That was not true. */
void hold_unwarned(struct hold *hold);
/* It is held: pawl_left_ms and the descriptor say for how long. */
void hold_until_show(struct pawl *pawl, struct hold *hold);
/* The hold's lease counts from sent_ms on. */
void hold_renewed(struct pawl *pawl, struct hold *hold, int64_t sent_ms);
/* When it is lost unless it is renewed. */
int64_t hold_until_ms(const struct pawl *pawl, const struct hold *hold);
struct cell *cell_find(const struct pawl *pawl, pawl_hold id);
/* It is lost, for good. `text`: copied; NULL: none. */
void hold_lose(struct pawl *pawl, struct hold *hold, enum pawl_reason reason, const char *text);
/* The user has it no more: its name is free again, and no call finds it. What is left of it comes to its end. */
void hold_part(struct pawl *pawl, struct hold *hold);
/* Begins its release: of what is held or lost. */
void hold_release(struct pawl *pawl, struct hold *hold);
/* The last request for it had no answer, and why; or it had one. The user hears of each change. */
void hold_away(struct pawl *pawl, struct hold *hold, enum pawl_result result, const char *why);
void hold_back(struct pawl *pawl, struct hold *hold);
/* An event for the user; only if pawl_fd was called. */
void hold_tell(struct pawl *pawl, struct hold *hold, enum pawl_event_kind kind);
void hold_untell(struct pawl *pawl, struct hold *hold, unsigned events);

/* ---- takes.c ---- */

/* Begins it: an id for each want, and PAWL_OK; or PAWL_HELD, PAWL_MEMORY. The arguments are right. */
enum pawl_result set_new(struct pawl *pawl, const struct pawl_want *wants, size_t count, const struct pawl_terms *terms, bool begun,
                         pawl_hold *holds, struct set **set, struct pawl_error *error);
/* The same of a document, which it takes over, also if it fails. */
enum pawl_result set_new_document(struct pawl *pawl, struct document_want *document, const struct pawl_terms *terms, bool begun,
                                  pawl_hold *hold, struct set **set, struct pawl_error *error);
/* Waits until it is done, frees it, and returns its result. */
enum pawl_result set_await(struct pawl *pawl, struct set *set, struct pawl_error *error);

/* Ends the set with this result, if it is not done: backs out of what it has, unless that is PAWL_OK. */
void set_finish(struct pawl *pawl, struct set *set, enum pawl_result result, const struct pawl_error *error);
/* Whether wake-ups are worth their price: something is held, or waits near the front of a wait queue. */
bool handle_listens(const struct pawl *pawl);
/* They come from now on, or no longer. */
void handle_listening(struct pawl *pawl, bool listening);
void handle_notified(struct pawl *pawl, const struct wakeup *wakeup);

/* ---- api.c ---- */

/* *terms: those given, and defaults. False: `error` says what is wrong. */
bool terms_valid(const struct pawl_terms *given, struct pawl_terms *terms, struct pawl_error *error);
/* Takes the mutex. NULL, without it: there is no such hold, or it is being released; or the handle is a parent's. */
struct hold *hold_lock(struct pawl *pawl, pawl_hold id, struct pawl_error *error);

/* ---- renew.c ---- */

/* Renews all that is due in one command. Called with the mutex, which it gives up meanwhile. */
void renewal_run(struct pawl *pawl, struct job *job);
void renewal_due(struct pawl *pawl, int64_t due_ms);

#endif
