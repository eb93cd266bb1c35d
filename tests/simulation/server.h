/*
 * server: lockstore.h as perform.c sees it: the twin, reached over a network. --wrap links it in between: perform.c calls
 * lock_take and gets __wrap_lock_take, which makes a request of the call. The request may be lost, arrive late or twice, and
 * its reply may be lost. When it is applied, it calls __real_lock_take on the twin.
 *
 * An election: from a moment on writes reach no majority. A process that reads locally (locks) sees them, one that reads by
 * majority (ledger, queue) does not, and their senders get no answer. The election ends with all of them confirmed, or all of
 * them rolled back.
 */
#ifndef PAWL_TESTS_SIMULATION_SERVER_H
#define PAWL_TESTS_SIMULATION_SERVER_H

#include "lockstore/lockstore_memory.h"
#include "worker/work_item.h"

extern struct lockstore *server_store; /* the way to the twin, shared by all processes */

void server_begin(void);
void server_end(void);

void server_away(int64_t us);
void server_election(int64_t us);
bool server_in_election(void);
void server_back(void);
/*
 * Another primary is elected, and these processes (one bit each) do not notice for `us`: they talk to the old one. The old one
 * still answers reads, also those by majority, and takes. A request that needs a majority, and a linearizable read, get no
 * answer.
 */
void server_replace(unsigned behind, int64_t us);
/* The last operation that the old primary's majority has. */
uint64_t server_replaced_operation(void);
/* An operator deletes the lock document of a type, whatever its owner. */
void server_theft(int type);
/* pawl-setup --adopt adopts the files as they are. */
void server_adopt(int type);
/* pawl-lock takes the lock, raises the epoch and writes nothing; where the ledger has no file yet it forgets the ledger instead. It is
 * killed at once, or its command runs until the lease ends or is lost. */
void server_lock_tool(int type);
/* Pauses the type for a while, by pawl-status --pause and --resume. */
void server_pause(int type);
bool server_paused(int type);
/* pawl-setup gives the type its own collection, or stops its producers and shares it again. own_tool_begin: no type has one. */
void server_own(int type);
void own_tool_begin(void);
/* A tool has the lock of the type for a moment, with a new owner; *ledger is as it finds it. False: not now. */
bool server_tool_begins(int type, struct ledger *ledger, struct owner *owner);
/* No tool was used yet. */
void tools_begin(void);
/* Whether pawl-lock's command runs, by the lock document. */
bool server_lock_tool_holds(int type);
/* Its lock document was deleted or stolen; one that a fail-over brings back is no hold any more. */
void server_lock_tool_loses(int type, const struct owner *owner);

/* Sends one request to the database. False: it got no answer, and was not made; `error` has the reason. True: the caller makes it now. */
bool server_reach(struct error *error);
/* The answer to that request. False: it was lost, or no majority was reached. */
bool server_answers(struct error *error);

/* The delete of the queue is a request like those of the lockstore. */
enum outcome server_delete(int type, enum queue_source source, const bson_t *ids, int64_t *removed, struct error *error);
struct queue_range;
enum outcome server_delete_range(int type, enum queue_source source, const struct queue_range *range, struct error *error);

/* The twin, whose clock is set. */
struct lockstore *server_store_now(void);
/* The ledger as the majority sees it. */
void server_ledger(int type, struct ledger *ledger);
/* The lock as it is; for the plants. */
bool server_lock(int type, struct lock_view *view);
void server_ledger_live(int type, struct ledger *ledger);
void server_put_ledger(int type, const struct ledger *ledger);

/* The owner of an acquisition, which has a number of its own in the world; and back: the number, 0: not one of these. */
struct owner server_owner(int process, uint64_t acquisition);
uint64_t server_owner_parse(const struct owner *owner, int *process);

#endif
