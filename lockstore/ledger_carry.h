/*
 * ledger_carry: a type's ledger goes from one database, the old place, to another, the new place. docs/protocol.md, Moving a type to
 * another database, has the rules. tools/setup/carry.c has the order of these requests.
 *
 * Threads, blocking and memory: as lockstore.h says.
 */
#ifndef PAWL_LOCKSTORE_LEDGER_CARRY_H
#define PAWL_LOCKSTORE_LEDGER_CARRY_H

#include "lockstore/ledger.h"

/* YES: the queue has a document of the type, in `messages` or, if it has its own collection, there. NO: it has none. */
MUST_CHECK enum outcome ledger_carry_waits(struct lockstore *store, const char *type, bool own, struct error *error);

/*
 * At the old place: marks the ledger as moved, if it is as it was seen: paused. The epoch rises by one, so that nothing that was sent
 * before can match. The queue was seen empty since the pause (ledger_carry_waits): so all that is committed is settled. NO: it is another
 * by now. After UNKNOWN the ledger says whether the move with this id is there.
 */
MUST_CHECK enum outcome ledger_carry_mark(struct lockstore *store, const char *type, const struct ledger *seen, const struct owner *owner,
                                          const struct ledger_move *move, struct error *error);

/*
 * Why the new place, whose ledger is `there` (all zero: none), cannot take that of `from`; NULL: it can. It can if it never had a file,
 * or if the type was moved away from there, and `from` has gone on since.
 */
const char *ledger_carry_obstacle(const struct ledger *there, const struct ledger *from);
/*
 * At the new place: the end of the ledger `from`, above its epoch and all that the name had there, paused. `from` is the marked one.
 * `there` is the new place's as it was read. NO: it is another by now. After UNKNOWN the ledger says whether this move is there
 * (carried_id).
 */
MUST_CHECK enum outcome ledger_carry_make(struct lockstore *store, const char *type, const struct ledger *there, const struct ledger *from,
                                          const struct owner *owner, const struct ledger_pause *pause, struct error *error);

#endif
