/*
 * mutex: the requests of a mutex, one document {type, slot} in `locks` for each that is held. acquire.h is how to use them;
 * docs/protocol.md, The mutex, has the rules. A lease is advice, and runs on the server's clock alone.
 *
 * Threads, blocking and memory: as lockstore.h says.
 */
#ifndef PAWL_LOCKSTORE_MUTEX_H
#define PAWL_LOCKSTORE_MUTEX_H

#include "lockstore/lockstore.h"
#include "visible.h"

enum lock_kind { LOCK_BY_WORKER, LOCK_BY_TOOL }; /* each kind lets the other have its turn */

struct lock_holder { /* for people: names the holder */
  char host[256];
  char boot[MACHINE_SIZE];
  char program[64];
  char name[PROCESS_NAME_BYTES_MAX + 1]; /* given by an operator; empty: none */
  enum lock_kind kind;                   /* not only for people: whose turn it is depends on it */
  int64_t pid;
  int64_t started_wall_ms; /* start of the process, since 1970 UTC */
};

/* Fills in this process, with the name of its program. It has no name. */
void lock_holder_self(struct lock_holder *holder, enum lock_kind kind, const char *program);
/*
 * Which process it is, for people, without its pid: "NAME@HOST", or the host alone where there is no name, or no other one; "?": neither is
 * known. The processes of one name, such as those of a service with replicas, differ by their hosts.
 */
struct lock_holder_shown {
  char text[PROCESS_NAME_BYTES_MAX + 1 + 256];
};
static inline struct lock_holder_shown lock_holder_show(const struct lock_holder *holder)
{
  struct lock_holder_shown shown;
  const char *host = holder->host[0] != '\0' ? holder->host : "?";
  bool named = holder->name[0] != '\0' && strcmp(holder->name, host) != 0;
  snprintf(shown.text, sizeof shown.text, "%s%s%s", named ? holder->name : "", named ? "@" : "", host);
  return shown;
}

struct lock_view {
  struct owner owner;
  struct lock_holder holder;
  int64_t ttl_ms;
  int64_t held_ms; /* since the take */
  int64_t left_ms; /* rest of the lease, by the server's clock; below 0: expired */
  bool stealable;  /* expired, or its end lies so far ahead that a clock must have jumped */
};

/*
 * Inserts the lock document. YES: mine (also if it was already mine: a lost reply). NO: another holds the lock.
 *
 * On slot 0 the primary alone acknowledges the insert. A fail-over may take it back until a later write of the same primary,
 * such as the fence, has its majority. Then the lock was lost early, and the next lock_renew answers NO. A caller that relies
 * on the lock, and not on the epoch, renews it once after the fence, or reads it and finds its own owner and a lease that is
 * not over.
 */
MUST_CHECK enum outcome lock_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                                  const struct lock_holder *holder, struct error *error);
/*
 * YES: held, `*view` names the holder. NO: free. REFUSED: the lock document has no proper `owner`. pawl did not write it, and
 * no call here removes it; `error` says how to. Any other field may be wrong and is still judged: an `expires_at` that is no
 * date counts as expired; a `ttl_ms` outside 1 ms to 1 h, or not a number, counts as 1 h.
 */
MUST_CHECK enum outcome lock_read(struct lockstore *store, const char *type, int slot, struct lock_view *view, struct error *error);
struct slot_view {
  struct owner owner;
  int64_t left_ms;
  bool there, stealable;
};
/*
 * Deletes the lock of the owner that the caller saw, if it may be stolen. NO: it is alive, or belongs to another by now.
 * Notifies the old holder's process (wakeup.h).
 */
MUST_CHECK enum outcome lock_steal(struct lockstore *store, const char *type, int slot, const struct owner *seen, struct error *error);
/* YES: the lock has a full lease from now. NO: it is lost. */
MUST_CHECK enum outcome lock_renew(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                                   struct error *error);
struct lock_renewal {
  const char *type; /* borrowed */
  int slot;
  enum lock_kind kind;
  struct owner owner;
  int64_t ttl_ms;
  enum outcome outcome; /* as lock_renew answers */
  bool awaited;         /* YES: a process of the other kind waits for it */
};
/*
 * Renews several locks: one update for all (at most a thousand per update), and one read of the result. YES: each `outcome` has
 * the answer for its lock. UNKNOWN: so is each `outcome`. A lease counts from before the call.
 */
MUST_CHECK enum outcome lock_renew_all(struct lockstore *store, struct lock_renewal *renewals, size_t count, struct error *error);
/* Deletes my lock, as the primary alone acknowledges. NO: it was not there. */
MUST_CHECK enum outcome lock_delete(struct lockstore *store, const char *type, int slot, const struct owner *owner, struct error *error);
/*
 * Deletes my lock if a fail-over has brought it back; as a rule it finds nothing. YES and NO: it is gone, and the majority knows
 * that.
 */
MUST_CHECK enum outcome lock_confirm(struct lockstore *store, const char *type, int slot, const struct owner *owner, struct error *error);

/* Lists every lock, in order of type, or those of one type (NULL: all); as ledger_list does (ledger.h). */
typedef void lock_each(void *context, const char *type, int slot, const struct lock_view *view, const char *problem);
MUST_CHECK enum outcome lock_list(struct lockstore *store, const char *type, lock_each *each, void *context, struct error *error);
/*
 * Lists those who wait, likewise, by their place in the queue, from 0 on. Of `who` host, pid, program, name and kind are set. `counts`: its
 * entry has not expired; one that has stays in the queue until another process removes it.
 */
typedef void waiter_each(void *context, const char *type, int place, const struct lock_holder *who, bool counts);
MUST_CHECK enum outcome lock_list_waiters(struct lockstore *store, const char *type, waiter_each *each, void *context, struct error *error);

#endif
