/*
 * perform_private: shared by perform.c (the way to the lock, the epoch, reading), perform_poll.c, perform_delete.c (deleting, settling) and
 * perform_write.c (what is written to the file and committed). Private to these files.
 */
#ifndef PAWL_WORKER_PERFORM_PRIVATE_H
#define PAWL_WORKER_PERFORM_PRIVATE_H

#include "worker/perform.h"

enum result result_of_outcome(enum outcome outcome);
enum result result_of_writer(enum writer_status status);
/* The same of a request to the database, which the completion then tells of. */
enum result perform_asked(struct completion *completion, enum outcome outcome);

/* Whether the action may go on to its next step (performer_until). */
bool perform_may_go_on(const struct performer *performer);
/*
 * Checks server, collections and indexes once, and again after a failure to read the queue or to delete, or when the server went
 * away.
 */
MUST_CHECK enum outcome perform_prepare(struct performer *performer, struct error *error);
/* The type's own collection was checked since the store was last prepared. */
bool perform_own_is_prepared(const struct performer *performer);
/* The same, with the type's own collection unless the source is SOURCE_SHARED. UNKNOWN also: that is missing, which `error` says. */
MUST_CHECK enum outcome perform_prepare_source(struct performer *performer, enum queue_source source, struct error *error);
/* Adds the database's name to what is said of a ledger: the wrong one is as likely as the wrong directory. */
void perform_name_database(const struct performer *performer, struct error *error);
/* Of a refusal that is the last before the verdict: finds out also whether files that the ledger does not fit could be adopted. */
enum result perform_judged(const struct performer *performer, const struct action *action, enum result result, int64_t seq,
                           struct completion *completion);
/*
 * YES: the ledger has my epoch. NO: fenced. `now`: not as a primary may still see it that has been replaced. That takes the
 * server up to a tenth of a second.
 */
enum result perform_verify(struct performer *performer, const struct action *action, bool now, struct completion *completion);
/*
 * A refusal is believed only while the epoch is mine: others may have written since, and a primary that was replaced would not
 * know of it. UNKNOWN: that could not be seen; NO: fenced.
 */
enum result perform_refused_or_fenced(struct performer *performer, const struct action *action, enum result refused,
                                      struct completion *completion);

void perform_begun(struct completion *completion, const struct action *action);
struct poll_answer {
  enum outcome outcome;
  const struct error *error; /* unless NO */
  int64_t took_ms, types;    /* of the request, and the number of types in it */
};
/* The completion of a poll that was made together with those of other types, from the beginning of the queue. */
void perform_polled(struct performer *performer, const struct action *action, const struct poll_answer *answer,
                    struct completion *completion);
enum result perform_poll(struct performer *performer, const struct action *action, struct completion *completion);
enum result perform_settle(struct performer *performer, const struct action *action, struct completion *completion);
enum result perform_delete(struct performer *performer, const struct action *action, struct completion *completion);

enum result perform_begin(struct performer *performer, const struct action *action, struct completion *completion);
enum result perform_append(struct performer *performer, const struct action *action, struct completion *completion);
enum result perform_commit(struct performer *performer, const struct action *action, struct completion *completion);
enum result perform_close(struct performer *performer, const struct action *action, struct completion *completion);

#endif
