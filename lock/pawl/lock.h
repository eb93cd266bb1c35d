/*
 * pawl/lock.h: locks for programs on many machines, in the MongoDB that they already have.
 *
 *   struct pawl_error error;
 *   struct pawl *pawl;
 *   pawl_hold hold;
 *   if (pawl_open(&(struct pawl_options){.size = sizeof (struct pawl_options), .uri = "mongodb://db"}, &pawl, &error) == PAWL_OK &&
 *       pawl_take(pawl, "payments", 10000, &hold, &error) == PAWL_OK) {
 *     … work, and pass pawl_token(pawl, hold) to whatever is written to …
 *     pawl_release(pawl, hold, &error);
 *   }
 *   pawl_close(pawl);
 *
 * What a lock is. A lock has a name, and at most one holder; with slots (a semaphore) at most so many. It is a lease: the
 * library renews it by itself, and when it cannot, the lock is lost after two thirds of the lease, and another may have it
 * after all of it. A process that was frozen may believe for a while that it still holds a lock. So each hold has a token, a
 * number that rises from holder to holder. A service that remembers the highest token, and refuses a lower one, is safe from
 * a holder that woke up late. With slots it must remember one for each slot (pawl_slot). pawl_left_ms tells without any
 * request whether a hold is still good; pawl_hold_fd becomes readable when it is lost, even if the process hangs.
 *
 * Turns. Waiters get a lock in the order in which they came. `pawl-lock` is the same lock, and keeps a pawl-worker of a type
 * of that name out of its file, by turns.
 *
 * Names are 1 to 128 bytes of A-Z, a-z, 0-9, '_', '.' and '-', and begin with neither '.' nor '-'.
 *
 * Threads. Any thread may call any function with the same handle; pawl_close is the last call. "Blocks" says that a call
 * sends requests. A request waits for its answer for at most a third of the lease. The other calls take a microsecond. The
 * library has some threads of its own. They call no function of the program: there are no callbacks. It blocks all signals in
 * them.
 *
 * Event loops. pawl_take_begin and pawl_release_begin only begin; pawl_fd becomes readable when pawl_next has an event.
 *
 * Fork. In a child every call with the parent's handle says PAWL_FORKED, sends nothing and frees nothing. The child opens its
 * own.
 *
 * Memory. What a call returns needs no freeing. Strings that are passed in are copied. Errors: a function that fails fills
 * `error`, unless it is NULL. Times are milliseconds.
 */
#ifndef PAWL_LOCK_H
#define PAWL_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PAWL_API __attribute__((visibility("default")))
#define PAWL_MUST_CHECK __attribute__((visibility("default"), warn_unused_result))
#else
#define PAWL_API
#define PAWL_MUST_CHECK
#endif

/* The API's version: the first number changes when programs must be compiled anew. */
#define PAWL_LOCK_VERSION_MAJOR 0
#define PAWL_LOCK_VERSION_MINOR 1

enum pawl_result {
  PAWL_OK,
  PAWL_BUSY,      /* held by another, and the call was not to wait */
  PAWL_TIMEOUT,   /* held by others for all of the time to wait */
  PAWL_CANCELLED, /* pawl_release ended the wait, or pawl_close one that was begun */
  PAWL_LOST,      /* the hold is lost: pawl_reason says why */
  PAWL_FENCED,    /* a higher token has been here: nothing was written */
  PAWL_UNKNOWN,   /* MongoDB gave no answer; what was asked may be done all the same */
  PAWL_HELD,      /* this handle holds the name already, or waits for it */
  PAWL_MISMATCH,  /* the name has another number of slots; or it is a type of pawl-worker, whose lock has no slots */
  PAWL_NOTHING,   /* there is nothing of that name; no document matches; nothing is held */
  PAWL_FOREIGN,   /* the lock's document in `locks` was not written by pawl: `error` says how to remove it */
  PAWL_MALFORMED, /* the name's document in `ledger` cannot be used, or a newer pawl is needed */
  PAWL_REFUSED,   /* the database, or what was passed to it, cannot be used as it is: `error` says what is there, and what is expected */
  PAWL_LOGIN,     /* MongoDB does not accept the user or the password */
  PAWL_DENIED,    /* the user lacks a right */
  PAWL_FORKED,    /* the handle is the parent process's */
  PAWL_INVALID,   /* a wrong argument */
  PAWL_MEMORY,    /* no memory, no thread or no descriptor */
};
/* The name of a result, such as "PAWL_OK"; a static text. */
PAWL_API const char *pawl_result_name(enum pawl_result result);

struct pawl_error {
  enum pawl_result result;
  char text[1020]; /* one line: what was being done, to what, what was found. Never a password */
};

/* ---- the handle ---- */

struct pawl;

/* What is 0 or NULL has its default. */
struct pawl_options {
  size_t size;         /* sizeof (struct pawl_options) */
  const char *uri;     /* "mongodb://localhost:27017" */
  const char *db;      /* the URI's, else "pawl" */
  const char *program; /* names this program to people: who holds, who waits. "libpawl-lock" */
  int64_t lease_ms;    /* 30000. 1000 to 3600000 */
  int64_t retry_ms;    /* 100. How often a waiter looks where no wake-up reaches it. 1 to 3600000 */
};

/*
 * Makes a handle. It does not connect: the first take does. Several handles in one process do not know of each other.
 * PAWL_INVALID: an option is wrong. PAWL_MEMORY. On failure *pawl is NULL.
 */
PAWL_MUST_CHECK enum pawl_result pawl_open(const struct pawl_options *options, struct pawl **pawl, struct pawl_error *error);
/*
 * Releases what is held, ends what waits, and frees the handle. No other thread may be in a call with it, or make one any
 * more. Blocks: for at most 5 s until all is answered, and then until the requests that are on their way are over. What has
 * no answer ends with its lease. NULL is allowed.
 */
PAWL_API void pawl_close(struct pawl *pawl);

/* ---- taking ---- */

/* Names one hold of this handle, from the begin of its take to its release; never used again. 0 is none. */
typedef uint64_t pawl_hold;

enum { PAWL_NO_WAIT = 0, PAWL_FOR_EVER = -1 }; /* values of wait_ms */

/*
 * Takes a lock, and waits for it up to wait_ms. *hold is set before the call waits: pawl_release from another thread ends the
 * wait. Unless the result is PAWL_OK there is no hold afterwards. A hold has its name until it is released, also if it is
 * lost: until then a second take of the name by the same handle is PAWL_HELD.
 *
 * PAWL_BUSY (only with PAWL_NO_WAIT), PAWL_TIMEOUT, PAWL_CANCELLED, PAWL_HELD, PAWL_MISMATCH, PAWL_FOREIGN, PAWL_MALFORMED,
 * PAWL_REFUSED, PAWL_INVALID, PAWL_MEMORY, PAWL_FORKED. PAWL_UNKNOWN, PAWL_LOGIN and PAWL_DENIED: with PAWL_NO_WAIT at the
 * first failure; otherwise when the time is over, for until then it is tried again. But at the first take of a handle a
 * missing right is PAWL_DENIED at once.
 */
PAWL_MUST_CHECK enum pawl_result pawl_take(struct pawl *pawl, const char *name, int64_t wait_ms, pawl_hold *hold, struct pawl_error *error);

struct pawl_want {
  const char *name;
  int slots; /* 0 or 1: one holder. Up to 1000: so many, and every program must say the same number (PAWL_MISMATCH) */
};

struct pawl_terms {
  size_t size;        /* sizeof (struct pawl_terms) */
  int64_t wait_ms;    /* for all of them together */
  int64_t longest_ms; /* the hold ends after this time, as if it could not be renewed: PAWL_REASON_OVER. 0: no limit */
};

/*
 * Takes several locks, all or none: in the order of their names, whichever order they are given in, so that two such calls
 * never wait for each other. holds[i] belongs to wants[i]. A call that waits for a name while this process holds another one
 * from an earlier call can wait for ever, as with any locks: take them together.
 *
 * As pawl_take. PAWL_INVALID also: a name is given twice, or count is 0 or above 1000. PAWL_LOST: one was lost while the
 * others were waited for.
 */
PAWL_MUST_CHECK enum pawl_result pawl_take_all(struct pawl *pawl, const struct pawl_want *wants, size_t count,
                                               const struct pawl_terms *terms, pawl_hold *holds, struct pawl_error *error);
/*
 * Begins to take several locks as pawl_take_all does, and does not block. PAWL_OK: for each hold PAWL_EVENT_HELD or
 * PAWL_EVENT_FAILED follows; after PAWL_EVENT_FAILED there is no hold. Otherwise no event follows: PAWL_HELD, PAWL_INVALID,
 * PAWL_MEMORY, PAWL_FORKED.
 */
PAWL_MUST_CHECK enum pawl_result pawl_take_begin(struct pawl *pawl, const struct pawl_want *wants, size_t count,
                                                 const struct pawl_terms *terms, pawl_hold *holds, struct pawl_error *error);

/* ---- documents ---- */

/*
 * Locks a document of the program's own collection in place, by a field of it. BSON is passed as its bytes, which begin with
 * their length, as bson_get_data gives them; they are copied.
 */
struct pawl_document {
  size_t size;            /* sizeof (struct pawl_document) */
  const char *collection; /* in the handle's database */
  const char *field;      /* the lock: {owner, at, ttl, token}. NULL: "pawl" */
  const uint8_t *filter;  /* BSON: which documents. {_id: …} is one; other fields may match many */
  const uint8_t *sort;    /* BSON: of these the first by this order, such as {at: 1}. NULL: any */
};

/*
 * Takes a document that matches and that nobody has locked, or whose lease is over: the lock and the document are one, so a
 * write by pawl_document_update is safe from a holder that woke up late. There is no wait queue: a waiting call tries every
 * 0.1 to 1 s. pawl_document_bytes has it as it was at the take, with the lock in it. As pawl_take; PAWL_BUSY and PAWL_TIMEOUT
 * also if no document matches. PAWL_REFUSED: MongoDB does not take the filter or the sort.
 */
PAWL_MUST_CHECK enum pawl_result pawl_document_take(struct pawl *pawl, const struct pawl_document *which, const struct pawl_terms *terms,
                                                    pawl_hold *hold, struct pawl_error *error);
PAWL_MUST_CHECK enum pawl_result pawl_document_take_begin(struct pawl *pawl, const struct pawl_document *which,
                                                          const struct pawl_terms *terms, pawl_hold *hold, struct pawl_error *error);
/* The document of a hold, as BSON; valid until the hold is released. NULL: the hold has none, or not yet, or there is no such hold. */
PAWL_API const uint8_t *pawl_document_bytes(const struct pawl *pawl, pawl_hold hold);
/*
 * Updates the document by MongoDB's operators ({$set: …}), if the lock is still this hold's; blocks. PAWL_LOST: it is not,
 * and nothing was written. PAWL_REFUSED: MongoDB does not take the update, or it has no operators, or touches the lock's
 * field. PAWL_UNKNOWN: it may have been written. PAWL_LOGIN, PAWL_DENIED: nothing was written. PAWL_INVALID: it is no held
 * document, or no BSON. PAWL_FORKED.
 */
PAWL_MUST_CHECK enum pawl_result pawl_document_update(struct pawl *pawl, pawl_hold hold, const uint8_t *update, struct pawl_error *error);

/* ---- holding ---- */

/*
 * For how long the hold is good without a further renewal; 0: it is lost, or not held yet, or there is none. No request, and
 * no lock of the library: as quick as reading a clock. Right after a freeze it is right.
 */
PAWL_API int64_t pawl_left_ms(const struct pawl *pawl, pawl_hold hold);
/* Rises from holder to holder of the name (of each slot of it). 0: it is waited for, or there is no such hold. */
PAWL_API int64_t pawl_token(const struct pawl *pawl, pawl_hold hold);
/* Which slot, from 0 on; -1: it is waited for, or there is no such hold. */
PAWL_API int pawl_slot(const struct pawl *pawl, pawl_hold hold);
/*
 * A descriptor that becomes readable when the hold is lost: at once where that is known, else when pawl_left_ms becomes 0, by
 * a timer of the kernel. For poll and the like; not to be read or closed. It belongs to the hold, and is closed by its
 * release. -1: no hold, or no descriptor.
 */
PAWL_API int pawl_hold_fd(struct pawl *pawl, pawl_hold hold);

enum pawl_reason {
  PAWL_REASON_NONE,    /* it is not lost */
  PAWL_REASON_EXPIRED, /* not renewed in time: this process, or its machine, stood still */
  PAWL_REASON_AWAY,    /* not renewed in time: MongoDB gave no answer */
  PAWL_REASON_STOLEN,  /* its lease ended, and another has taken it */
  PAWL_REASON_REMOVED, /* its document is gone: removed by hand, or by a roll-back of the database */
  PAWL_REASON_BROKEN,  /* a person has broken it: `error` says why */
  PAWL_REASON_OVER,    /* longest_ms is over */
  PAWL_REASON_FORKED,  /* this is the parent's */
};
/* Why a hold is lost; its text goes to `error`, if that is not NULL. */
PAWL_API enum pawl_reason pawl_reason(const struct pawl *pawl, pawl_hold hold, struct pawl_error *error);

/*
 * Ends a hold, or a wait. Blocks. PAWL_OK: it is released, and the next waiter is woken. PAWL_LOST: it was lost before; what
 * can be removed of it is removed. PAWL_UNKNOWN, PAWL_LOGIN, PAWL_DENIED: no answer, or no permission, for 5 s or until the
 * lease was over: then the lock ends with its lease. PAWL_INVALID: there is no such hold. PAWL_FORKED. Whatever the result
 * but PAWL_FORKED, the hold is gone.
 */
PAWL_API enum pawl_result pawl_release(struct pawl *pawl, pawl_hold hold, struct pawl_error *error);
/* Begins to end a hold, or a wait, and does not block: PAWL_EVENT_RELEASED follows, or PAWL_EVENT_FAILED if it was waited for. */
PAWL_API enum pawl_result pawl_release_begin(struct pawl *pawl, pawl_hold hold, struct pawl_error *error);

/* One that holds a lock, or waits for one. */
struct pawl_entry {
  char name[129];
  char host[256], program[64]; /* of the process; a worker with a name of its own has NAME@HOST as its host */
  int64_t pid;
  int slot;        /* held: which slot, from 0 on; -1: it waits */
  int place;       /* waits: how many came before it */
  int64_t held_ms; /* held: for so long */
  int64_t left_ms; /* held: the rest of its lease; 0 or below: it is over, and another may take the lock */
};
/*
 * Who holds and who waits, of one name, or with NULL of all: by name, the holders first. Fills the first `room` of them;
 * *count is how many there are. Blocks. It shows what is in the database: a holder may be dead, a waiter may be gone.
 * PAWL_FOREIGN: there is a document that pawl did not write; the entries are all others.
 * PAWL_UNKNOWN, PAWL_LOGIN, PAWL_DENIED, PAWL_REFUSED, PAWL_INVALID, PAWL_MEMORY, PAWL_FORKED.
 */
PAWL_MUST_CHECK enum pawl_result pawl_list(struct pawl *pawl, const char *name, struct pawl_entry *entries, size_t room, size_t *count,
                                           struct pawl_error *error);
/*
 * Ends the hold of another process, or of this one: of one slot, or with -1 of all. For people who know that the holder is
 * not to go on: it learns who did it, and why, as soon as it can, and its token is too low for whoever checks tokens. Blocks.
 * PAWL_NOTHING: it is not held. PAWL_FOREIGN: a slot has a document that pawl did not write, and the others are ended.
 * PAWL_UNKNOWN: it may have ended. PAWL_LOGIN, PAWL_DENIED, PAWL_REFUSED, PAWL_INVALID, PAWL_MEMORY, PAWL_FORKED.
 */
PAWL_MUST_CHECK enum pawl_result pawl_break(struct pawl *pawl, const char *name, int slot, const char *why, struct pawl_error *error);

/*
 * Removes an unused name: its token, its number of slots, and the documents of dead processes.
 * Its tokens never go back: the next holder's is above all that any forgotten name had. Waits up to wait_ms for the name to be
 * free. Blocks; a request that has no answer is tried again for 5 s.
 * PAWL_BUSY, PAWL_TIMEOUT: it is held, or waited for. PAWL_HELD: by this handle. PAWL_NOTHING: there is no such lock.
 * PAWL_REFUSED: it is a type of pawl-worker, whose ledger stays; or paused. PAWL_MALFORMED, PAWL_FOREIGN, PAWL_UNKNOWN, PAWL_LOGIN,
 * PAWL_DENIED, PAWL_INVALID, PAWL_MEMORY, PAWL_FORKED.
 */
PAWL_MUST_CHECK enum pawl_result pawl_forget(struct pawl *pawl, const char *name, int64_t wait_ms, struct pawl_error *error);
/*
 * Does so for every name that no process holds or waits for; *count: how many had a token. For databases with many names that
 * are used once, such as a lock for each order: MongoDB keeps about 150 bytes for each. Other processes may take locks at the
 * same time. The library never does it by itself. PAWL_UNKNOWN, PAWL_LOGIN, PAWL_DENIED, PAWL_REFUSED, PAWL_INVALID, PAWL_MEMORY,
 * PAWL_FORKED.
 */
PAWL_MUST_CHECK enum pawl_result pawl_prune(struct pawl *pawl, size_t *count, struct pawl_error *error);

/* ---- fencing ---- */

/*
 * Writes that a holder who woke up late cannot do: each is refused that comes with a lower token than an earlier one. The
 * token is a hold's (pawl_token), or one that another program has passed on. A later write with the same token is allowed.
 *
 * Updates one document of any collection by MongoDB's operators, and keeps the token in it, in FIELD.token. Blocks.
 * PAWL_FENCED: the document has a higher token. PAWL_NOTHING: no document matches. PAWL_REFUSED: MongoDB does not take it.
 * PAWL_UNKNOWN: it may have been written. PAWL_LOGIN, PAWL_DENIED, PAWL_INVALID, PAWL_FORKED. `which` as for
 * pawl_document_take, without its sort.
 */
PAWL_MUST_CHECK enum pawl_result pawl_guarded_update(struct pawl *pawl, const struct pawl_document *which, const uint8_t *update,
                                                     int64_t token, struct pawl_error *error);
/*
 * Appends to a file, and syncs it; without a handle and without MongoDB. The highest token lies beside the file, in
 * PATH.token; the kernel's lock on that file keeps the writers apart, so it works wherever such a lock does: on a local file
 * system, among all processes of the machine; on NFS 4 among machines. Both files are made if they are missing, with mode
 * 0666 and the process's umask. Blocks as long as another process writes.
 *
 * PAWL_FENCED: a higher token has written. PAWL_REFUSED: PATH.token holds something else than a token. PAWL_INVALID: the
 * token is not above 0, or no path. PAWL_UNKNOWN: opening, writing or syncing failed, and a part may be in the file; `error`
 * has the system's reason.
 */
PAWL_MUST_CHECK enum pawl_result pawl_file_append(const char *path, int64_t token, const void *bytes, size_t size,
                                                  struct pawl_error *error);

/* ---- events ---- */

enum pawl_event_kind {
  PAWL_EVENT_WAITS,    /* a take that was begun has to wait: `error` says why, and who holds it. At most once a hold */
  PAWL_EVENT_AWAY,     /* a request had no answer, or MongoDB refuses user or right: `result`, `error`. It is tried again */
  PAWL_EVENT_BACK,     /* it answers again */
  PAWL_EVENT_HELD,     /* a take that was begun has succeeded */
  PAWL_EVENT_FAILED,   /* a take that was begun has failed: `result`, `error` */
  PAWL_EVENT_LOST,     /* a hold is lost: `reason`, `error`. It is still to be released */
  PAWL_EVENT_RELEASED, /* a release that was begun has ended: `result`, as of pawl_release */
};
struct pawl_event {
  size_t size; /* set by the caller: sizeof (struct pawl_event) */
  enum pawl_event_kind kind;
  pawl_hold hold;
  enum pawl_result result;
  enum pawl_reason reason;
  struct pawl_error error;
};
/*
 * A descriptor that is readable while pawl_next has an event; events are kept from this call on, so call it before the first
 * take. It belongs to the handle. -1: no descriptor, or a parent's handle.
 */
PAWL_API int pawl_fd(struct pawl *pawl);
/* Takes the next event. False: there is none at the moment. */
PAWL_MUST_CHECK bool pawl_next(struct pawl *pawl, struct pawl_event *event);

#ifdef __cplusplus
}
#endif
#endif
