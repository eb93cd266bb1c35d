/*
 * consumer_parts: what consumer.c (events in, actions out, the lease), consumer_acquire.c (to the lock and back),
 * consumer_epoch.c (what a holder does before and after draining), consumer_drain.c (draining) and consumer_storage.c (what looks at the
 * storage have shown) share. Not for anybody else.
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

enum { RECHECK_MS = 1000 }; /* how often a check that failed, or a full disk, is looked at again */

/* The one place where the state changes; notes the edge. */
void consumer_enter(struct turn *turn, enum consumer_state state, const char *why);
__attribute__((format(printf, 4, 5))) void consumer_note(struct turn *turn, enum note_level level, const char *event, const char *format,
                                                         ...);
/* The action is filled in by the caller after this; it is started when consumer_handle returns. */
struct action *consumer_start(struct turn *turn, enum action_kind kind);
bool consumer_runs(const struct consumer *consumer, enum activity activity);
/* How many deletes run. */
int consumer_deletes(const struct consumer *consumer);
/* MAIN may start something now. */
bool consumer_main_ready(const struct turn *turn);
/* May a holder begin something that only a holder may? Not when the lock is lost, nor after two thirds of the lease. */
bool consumer_alive(const struct turn *turn);
/*
 * For how long a look at the queue (PEEK, or a pass that found nothing) is to be followed by none of its kind, by what it took: it goes
 * over all that was deleted in the last minutes, which the server keeps for so long. A glance begins at what was read last, may miss a
 * message whose `_id` is smaller, and is what there is until the next look from the beginning is due.
 */
int64_t consumer_look_rest(const struct consumer *consumer, const struct completion *completion);
/* Asked to stop, and much of the time for it is gone: what is not known is left to the lease and to the next holder. */
bool consumer_hurries(const struct turn *turn);
/* Says, as an error, that the storage cannot be trusted, and the way out, if there is one. */
void consumer_untrusted(struct turn *turn, const struct completion *completion);
/* The storage was refused since then (-1: not yet): would one more refusal, now, be believed? */
bool consumer_judges(const struct turn *turn, int64_t since_ms);
/* Starts CHECK; and what it has shown: false, nothing about the storage. It may have entered STATE_STOPPED. */
void consumer_check_start(struct turn *turn);
bool consumer_storage_seen(struct turn *turn, const struct completion *completion);
/* What a look at the storage has shown; logged when it is new. The next look, while idle or waiting, is soon, or in a minute. */
void consumer_storage_is(struct turn *turn, enum storage_view view, const struct error *why);
/* A look at the queue, or a pass, has met a document that cannot be taken: says so. */
void consumer_name_document(struct turn *turn, const struct completion *completion);
/* The database is not as it should be, or what is committed cannot be deleted: says so. The type is to stop. */
void consumer_refused(struct turn *turn, const struct completion *completion);
/* Half to all of `ms`, so that many workers do not march in step. */
int64_t consumer_jitter(const struct turn *turn, int64_t ms);
/* Until the next look that nobody asked for: `ms`, jittered, or longer while wake-ups come. */
int64_t consumer_pause(const struct turn *turn, int64_t ms, bool hears);
/* The pause after so many failures in a row: 100 ms doubling to 3 s, jittered. */
int64_t consumer_backoff(const struct turn *turn, int64_t row);

/* IDLE to FENCING, and UNLOCKING: what completions of MAIN mean there, and what is to be started. */
void consumer_acquire_main(struct turn *turn, const struct completion *completion);
void consumer_acquire_step(struct turn *turn);
/* Idle or waiting, the storage is looked at every now and then beside the queue and the mutex, whose pauses that leaves alone. */
bool consumer_looks_aside(const struct consumer *consumer);
void consumer_acquire_aside(struct turn *turn, const struct completion *completion);
void consumer_to_idle(struct turn *turn, const char *why);

/* OPENING to RELEASING: what completions of MAIN mean there, and what is to be started. */
void consumer_epoch_main(struct turn *turn, struct completion *completion);
void consumer_epoch_read(struct turn *turn, struct completion *completion);
void consumer_epoch_delete(struct turn *turn, struct completion *completion);
void consumer_epoch_step(struct turn *turn);
/* By step 5 of the protocol: what was written is closed and committed as clean, or `clean` goes back to what it was. */
void consumer_release(struct turn *turn, enum consumer_state after, const char *why);
/* The epoch is another's by now, or the file is dead to this process: nothing more is written or committed. */
void consumer_fenced(struct turn *turn);
void consumer_disk_failed(struct turn *turn, const char *text);
void consumer_commit_fill(struct turn *turn, struct action *action, const struct committed *after);
/* When, while it leaves, the reply that READ waits for is dropped; INT64_MAX: there is none to be dropped. */
int64_t consumer_read_drop_ms(const struct consumer *consumer);
void consumer_draining_main(struct turn *turn, const struct completion *completion);
void consumer_draining_step(struct turn *turn);
/* Forgets the epoch; frees its loads. */
void consumer_epoch_end(struct consumer *consumer);

#endif
