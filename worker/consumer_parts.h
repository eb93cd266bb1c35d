/*
 * consumer_parts: shared by consumer.c (events in, actions out, the lease), consumer_acquire.c (the way to the lock and back),
 * consumer_epoch.c (what a holder does before and after draining), consumer_drain.c (draining) and consumer_storage.c (the
 * results of storage checks). Private to these files.
 */
#ifndef PAWL_WORKER_CONSUMER_PARTS_H
#define PAWL_WORKER_CONSUMER_PARTS_H

#include "lockstore/lease.h"
#include "worker/consumer.h"

/* One call of consumer_handle. */
struct turn {
  struct consumer *consumer;
  const struct moment *moment;
  struct effects *effects;
};

enum { RECHECK_MS = 1000 }; /* the pause before a failed check, or a full disk, is checked again */

/* The only function that changes the state; it notes the change. */
void consumer_enter(struct turn *turn, enum consumer_state state, const char *why);
__attribute__((format(printf, 4, 5))) void consumer_note(struct turn *turn, enum note_level level, const char *event, const char *format,
                                                         ...);
/* The caller fills in the action after this call; it starts when consumer_handle returns. */
struct action *consumer_start(struct turn *turn, enum action_kind kind);
bool consumer_runs(const struct consumer *consumer, enum activity activity);
/* How many deletes are running. */
int consumer_deletes(const struct consumer *consumer);
/* Whether MAIN may start an action now. */
bool consumer_main_ready(const struct turn *turn);
/* Whether a holder may begin something that needs the lock: not when the lock is lost, nor after two thirds of the lease. */
bool consumer_alive(const struct turn *turn);
/*
 * The pause after a poll of the queue that found nothing (PEEK, or a pass), by its duration: a poll from the beginning goes
 * over all that was deleted in the last minutes, because the server keeps it that long. A tail poll begins at the last `_id`
 * that was read, and may miss a message with a smaller `_id`; until the pause ends, only tail polls are made.
 */
int64_t consumer_look_rest(const struct consumer *consumer, const struct completion *completion);
/*
 * Whether the consumer was asked to stop some time ago: it no longer waits for unknown answers, and leaves them to the lease
 * and to the next holder.
 */
bool consumer_hurries(const struct turn *turn);
/* Logs an error: the storage cannot be trusted, and what to do, if anything helps. */
void consumer_untrusted(struct turn *turn, const struct completion *completion);
/* The storage has been refused since then (-1: not yet): whether one more refusal now is believed. */
bool consumer_judges(const struct turn *turn, int64_t since_ms);
/*
 * consumer_check_start starts CHECK. consumer_storage_seen handles its result, and may enter STATE_STOPPED; false: the result
 * says nothing about the storage.
 */
void consumer_check_start(struct turn *turn);
bool consumer_storage_seen(struct turn *turn, const struct completion *completion);
/* Sets the result of a storage check, and logs it if it is new. The next check, while idle or waiting, is due soon, or in a minute. */
void consumer_storage_is(struct turn *turn, enum storage_view view, const struct error *why);
/* Logs the document that cannot be taken, if a poll or a pass met one. */
void consumer_name_document(struct turn *turn, const struct completion *completion);
/* Logs that the database check failed, or that a committed message cannot be deleted. The type shall stop. */
void consumer_refused(struct turn *turn, const struct completion *completion);
/* Half to all of `ms`, so that many workers do not act at the same moment. */
int64_t consumer_jitter(const struct turn *turn, int64_t ms);
/* The pause until the next poll without a wake-up: `ms` with jitter, or longer while wake-ups come. */
int64_t consumer_pause(const struct turn *turn, int64_t ms, bool hears);
/* The pause after `row` failures in a row: 100 ms doubling to 3 s, with jitter. */
int64_t consumer_backoff(const struct turn *turn, int64_t row);

/* IDLE to FENCING, and UNLOCKING: handles MAIN's completions, and starts the next action. */
void consumer_acquire_main(struct turn *turn, const struct completion *completion);
void consumer_acquire_step(struct turn *turn);
/*
 * Idle or waiting, the consumer also checks the storage now and then. This does not change the pauses of the polls and of the
 * reads of the mutex.
 */
bool consumer_looks_aside(const struct consumer *consumer);
void consumer_acquire_aside(struct turn *turn, const struct completion *completion);
void consumer_to_idle(struct turn *turn, const char *why);
/* To IDLE, STOPPED or DONE; out of the wait queue first, so that nobody is called who does not come. */
void consumer_stop_waiting(struct turn *turn, enum consumer_state after, const char *why);

/* OPENING to RELEASING: handles MAIN's completions, and starts the next action. */
void consumer_epoch_main(struct turn *turn, struct completion *completion);
void consumer_epoch_read(struct turn *turn, struct completion *completion);
void consumer_epoch_delete(struct turn *turn, struct completion *completion);
void consumer_epoch_step(struct turn *turn);
/* Releases (docs/protocol.md, Release): closes what was written and commits it as clean, or sets `clean` back to its old value. */
void consumer_release(struct turn *turn, enum consumer_state after, const char *why);
/* Decides how the epoch ends, and what comes then: draining goes on until what runs has come back. */
void consumer_leave(struct consumer *consumer, enum leave leave, enum consumer_state after, const char *why);
/* The epoch belongs to another by now, or the file is dead to this process: nothing more is written or committed. */
void consumer_fenced(struct turn *turn);
void consumer_disk_failed(struct turn *turn, const char *text);
/* The commit of what follows on the known end; `after` is that end until it is known better. */
void consumer_commit_fill(const struct consumer *consumer, struct ledger_commit *commit);
/* Once more the commit whose answer is unknown. */
void consumer_commit_start(struct turn *turn);
/* While it leaves: when it drops the reply that READ waits for; INT64_MAX: there is none to drop. */
int64_t consumer_read_drop_ms(const struct consumer *consumer);
void consumer_draining_main(struct turn *turn, const struct completion *completion);
void consumer_draining_step(struct turn *turn);
/* Forgets the epoch; frees its loads. */
void consumer_epoch_end(struct consumer *consumer);

#endif
