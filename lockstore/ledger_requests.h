/*
 * ledger_requests: the single requests of which the first epoch of a name and the end of its ledger consist; ledger_floor.c has their
 * order, and docs/protocol.md, The floor, the reasons. Private to lockstore and its twin.
 *
 * Threads, blocking and memory: as lockstore.h says.
 */
#ifndef PAWL_LOCKSTORE_LEDGER_REQUESTS_H
#define PAWL_LOCKSTORE_LEDGER_REQUESTS_H

#include "lockstore/ledger.h"

/* What a new epoch follows on. */
struct ledger_from {
  int64_t epoch; /* the ledger's; or, of one that is being made, the floor */
  int64_t birth; /* it is being made, under this number; 0: it has an epoch */
};

/* Makes a ledger without an epoch; the primary alone acknowledges it: what gives it an epoch waits for the majority. NO: there is one. */
MUST_CHECK enum outcome ledger_insert(struct lockstore *store, const char *type, int64_t birth, struct error *error);
/* Makes one, and reads what its first epoch follows on. YES: it is being made, by me or by somebody else. NO: it has an epoch. */
MUST_CHECK enum outcome ledger_make(struct lockstore *store, const char *type, struct ledger_from *from, struct error *error);
/* Who fences, and what a FENCER_READER changes with it of what the ledger needs. */
enum fence_change { FENCE_ONLY, FENCE_PAUSE, FENCE_OWN_BEGIN, FENCE_OWN_END };
struct fence {
  const struct owner *owner;
  enum fencer fencer;
  enum fence_change change;
  const struct ledger_pause *pause; /* of FENCE_PAUSE */
};
/* As ledger_fence, ledger_pause_begin, ledger_own_begin and ledger_own_end. */
MUST_CHECK enum outcome ledger_fence_from(struct lockstore *store, const char *type, const struct ledger_from *from,
                                          const struct fence *fence, struct ledger *before, struct error *error);
/* As ledger_draw; without a birth from any epoch, which from->epoch does not name. NO: the ledger has another number of slots, or there is
 * none. */
MUST_CHECK enum outcome ledger_draw_from(struct lockstore *store, const char *type, const struct ledger_from *from, int slots,
                                         const struct owner *owner, int64_t *token, struct error *error);
/*
 * YES: it is being made, and *from has its birth, and the floor as this server has it, read after the ledger was seen there. What was
 * raised before the ledger was made, that server has, too. NO: it has an epoch, or cannot be used. UNKNOWN also: there is none.
 */
MUST_CHECK enum outcome ledger_read_made(struct lockstore *store, const char *type, struct ledger_from *from, struct error *error);
/* ledger_put over a ledger that is there, or that is being made (before->birth). */
MUST_CHECK enum outcome ledger_put_over(struct lockstore *store, const char *type, const struct ledger *before,
                                        const struct ledger_found *found, const struct ledger *ledger, struct error *error);
/* Raises the floor, by one majority write; never lowers it. */
MUST_CHECK enum outcome ledger_raise_floor(struct lockstore *store, int64_t epoch, struct error *error);
enum { LEDGER_REMOVE_MAX = 1000 };
/* Removes those that are as they were seen, at most LEDGER_REMOVE_MAX. */
MUST_CHECK enum outcome ledger_remove(struct lockstore *store, const struct ledger_name *names, size_t count, int64_t *removed,
                                      struct error *error);

#endif
