/*
 * server: lockstore.h as perform.c sees it: the twin behind a network. Linked in between by --wrap: perform.c calls lock_take, gets
 * __wrap_lock_take, which makes a request of it; the request may be lost, arrive late or twice, and its reply be lost; applied, it is
 * __real_lock_take on the twin.
 *
 * An election: from a moment on writes reach no majority. They are there for whoever reads locally (locks), not for whoever reads by
 * majority (ledger, queue), and their senders get no answer. It ends with all of them confirmed, or with all of them rolled back.
 */
#ifndef PAWL_TESTS_SIMULATION_SERVER_H
#define PAWL_TESTS_SIMULATION_SERVER_H

#include "lockstore/lockstore_memory.h"
#include "worker/load.h"

extern struct lockstore *server_store; /* the way to the twin: everybody's */

void server_begin(void);
void server_end(void);

void server_away(int64_t us);
void server_election(int64_t us);
bool server_in_election(void);
void server_back(void);
/*
 * Another primary is elected, and these processes (a bit each) do not find out for so long: they talk to the old one. It answers as of now:
 * reads, of the majority too, and takes; what needs a majority, and a linearizable read, gets no answer.
 */
void server_replace(unsigned behind, int64_t us);
/* The last operation that the old primary's majority has. */
uint64_t server_replaced_operation(void);
/* Somebody deletes the lock document of a type, whoever holds it. */
void server_theft(int type);
/* pawl-setup --adopt finds the files as they are. */
void server_adopt(int type);
/* pawl-lock takes the lock, raises the epoch and writes nothing; it is killed at once, or its command runs until the lease ends or is lost.
 */
void server_lock_tool(int type);
/* Its command runs, as far as the lock document says. */
bool server_lock_tool_holds(int type);

/*
 * Of one request to the database. False: it got no answer, and was not made; `error` says so. True: it is to be made now.
 */
bool server_reach(struct error *error);
/* Its answer: false: it got lost, or no majority came about. */
bool server_answers(struct error *error);

/* The delete of the queue is a request like those of the lockstore. */
enum outcome server_delete(int type, const bson_t *ids, int64_t *removed, struct error *error);
struct queue_range;
enum outcome server_delete_range(int type, const struct queue_range *range, struct error *error);

/* The twin, whose clock is set. */
struct lockstore *server_store_now(void);
/* As the majority sees it. */
void server_ledger(int type, struct ledger *ledger);
/* As it is; for the plants. */
bool server_lock(int type, struct lock_view *view);
void server_ledger_live(int type, struct ledger *ledger);
void server_put_ledger(int type, const struct ledger *ledger);

#endif
