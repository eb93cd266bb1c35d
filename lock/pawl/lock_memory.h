/*
 * pawl/lock_memory.h: the same locks without a server, for the tests of programs that use them: link libpawl-lock-memory in
 * place of libpawl-lock.
 *
 * All handles of one `struct pawl_memory` share its locks, as if each were a process of its own. Its clock moves only by
 * pawl_memory_advance, and while a call waits (then it jumps to whatever comes next, so that no test waits): so a test of an
 * hour takes a millisecond, and always does the same. One thread at a time, and no threads of its own.
 */
#ifndef PAWL_LOCK_MEMORY_H
#define PAWL_LOCK_MEMORY_H

#include <pawl/lock.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pawl_memory;

/* NULL: no memory. */
PAWL_MUST_CHECK struct pawl_memory *pawl_memory_new(void);
/* After the handles are closed. */
PAWL_API void pawl_memory_free(struct pawl_memory *memory);
/* In place of pawl_open, which fails in this library. options->uri and options->db are ignored. */
PAWL_MUST_CHECK enum pawl_result pawl_memory_open(struct pawl_memory *memory, const struct pawl_options *options, struct pawl **pawl,
                                                  struct pawl_error *error);
/* Time passes, and all that falls due is done: renewals, waits, losses. */
PAWL_API void pawl_memory_advance(struct pawl_memory *memory, int64_t ms);
/* The handle's process stands still: the clock goes on, and nothing of it is done until `frozen` is false again. */
PAWL_API void pawl_memory_freeze(struct pawl *pawl, bool frozen);
/* The database gives this handle no answer, until `away` is false again. */
PAWL_API void pawl_memory_cut_off(struct pawl *pawl, bool away);
/* After `skip` more requests of this handle the next `count` have no answer; with `done` they are done all the same. */
PAWL_API void pawl_memory_lose_answers(struct pawl *pawl, int skip, int count, bool done);
/* From now on each answer of the database to this handle comes so much later than what it answers is done. 0: at once. */
PAWL_API void pawl_memory_slow(struct pawl *pawl, int64_t ms);

/*
 * A document of a collection, as BSON, for the locks of documents. Of MongoDB's language the library in memory knows equality,
 * $eq, $ne, $lt, $lte, $gt, $gte, $in, $exists, $and, $or and $nor in filters, and $set, $unset and $inc in updates; anything
 * else is PAWL_REFUSED.
 */
PAWL_API void pawl_memory_document_put(struct pawl_memory *memory, const char *collection, const uint8_t *document);
/* The first that matches, as BSON, valid until it changes; NULL: none. */
PAWL_API const uint8_t *pawl_memory_document(struct pawl_memory *memory, const char *collection, const uint8_t *filter);

#ifdef __cplusplus
}
#endif
#endif
