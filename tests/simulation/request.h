/*
 * request: a call of lockstore.h that writes, as a request on its way to the server (server.h).
 */
#ifndef PAWL_TESTS_SIMULATION_REQUEST_H
#define PAWL_TESTS_SIMULATION_REQUEST_H

#include "checks.h"
#include "lockstore/lockstore_memory.h"
#include "lockstore/wait_queue.h"
#include "lockstore/wakeup.h"
#include "queue.h"
#include "world.h"

/* What perform.c calls in place of the function, and the function. */
#define WRAPPED(function) __typeof__(function) __wrap_##function, __real_##function
WRAPPED(lockstore_prepare);
WRAPPED(lock_confirm);
WRAPPED(ledger_read_now);
WRAPPED(wakeup_send);
WRAPPED(lock_take);
WRAPPED(lock_steal);
WRAPPED(lock_renew_all);
WRAPPED(lock_delete);
WRAPPED(wait_queue_read);
WRAPPED(wait_queue_join);
WRAPPED(wait_queue_renew);
WRAPPED(wait_queue_leave);
WRAPPED(wait_queue_remove_empty);
WRAPPED(wait_queue_take);
WRAPPED(wait_queue_call);
WRAPPED(ledger_read);
WRAPPED(ledger_fence);
WRAPPED(ledger_commit);
WRAPPED(ledger_settle);
WRAPPED(lockstore_address);
WRAPPED(lockstore_random);

enum request_kind { TAKE, STEAL, RENEW, RELEASE, CONFIRM, JOIN, WAIT_ON, LEAVE, EMPTY, CALL, FENCE, COMMIT, SETTLE, DELETE, DELETE_RANGE };

enum { LEAVING_MAX = 16 };

/* All values of a write, so that it can be carried out at any time, and again. */
struct request {
  struct request *next; /* the next late request */
  enum request_kind kind;
  int type;
  struct caller caller;
  struct owner owner; /* STEAL: the owner that was seen; WAIT_ON, LEAVE, CALL: the waiter */
  struct waiter waiter;
  struct lock_view held; /* JOIN */
  bool has_held, late;
  struct owner owners[LEAVING_MAX]; /* TAKE: of the departure */
  struct departure departure;
  bool departs;
  bool has_last;     /* CALL */
  struct owner last; /* CALL: as seen */
  int64_t ttl_ms, epoch, settled;
  struct lock_renewal renewals[TYPES_MAX];
  size_t renewal_count;
  enum fencer fencer;
  struct lock_holder holder;
  struct ledger_commit commit;
  char machine[MACHINE_SIZE]; /* the machine in the commit */
  enum queue_source source;   /* DELETE, DELETE_RANGE */
  bson_t *ids;
  bool fewer;      /* DELETE: it does not find all that it names */
  int64_t removed; /* DELETE: how many it removed */
  struct queue_range range;
};

/* Sends a write, as its sender sees it. `before` may be NULL: the ledger as a fence found it. */
enum outcome request_send(struct request *request, struct ledger *before, struct error *error);
/* Forgets those on their way. */
void requests_free(void);

/* Whether the caller talks to a primary that was replaced; and that one, whose clock is set. */
bool server_caller_is_behind(void);
struct lockstore *server_replaced_now(void);
/* The server that answers the caller's majority reads of the ledger. */
struct lockstore *server_ledger_store(void);
/* The answer of the primary alone. False: it was lost. */
bool server_answers_at_once(struct error *error);
/* False, and `error` says so. */
bool server_no_answer(struct error *error);

#endif
