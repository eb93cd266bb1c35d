/*
 * consumer: the state machine of one type, of five small ones: seek, epoch, lease, pace, trust. Pure: no calls, no clock, no
 * randomness of its own. Events and the current moment go in, actions and notes come out. The caller performs the actions
 * (worker/perform.h) and logs the notes.
 *
 *       idle ──message seen──▶ checking ──▶ waiting ──free──▶ taking ──▶ fencing ──▶ opening ──▶ settling ──▶ draining
 *        ▲                                    ▲ busy: timer                 ▲ roll                              │
 *        └──────────── unlocking ◀────────────┴──────────────────────────── releasing ◀──────────────────────────┘
 *
 * Three more states: backing-off (after a failed disk), stopped (the storage cannot be trusted: exit 74; or the database check
 * failed: exit 2) and done.
 *
 * A consumer belongs to the loop's thread. Times are milliseconds of the boot-time clock, which goes on while the machine
 * sleeps, as a lease does. docs/protocol.md has the reasons for every step.
 */
#ifndef PAWL_WORKER_CONSUMER_H
#define PAWL_WORKER_CONSUMER_H

#include "lockstore/wakeup.h"
#include "worker/epoch.h"
#include "worker/lease.h"
#include "worker/pace.h"
#include "worker/seek.h"
#include "worker/trust.h"

enum event_kind {
  EVENT_TIMER,         /* some time has passed */
  EVENT_COMPLETION,    /* an action has come back */
  EVENT_STOP,          /* finish the current batch and leave */
  EVENT_WAKE,          /* a wake-up: poll, or read the lock, at once; it may be late, doubled or wrong */
  EVENT_NOTIFICATIONS, /* wake-ups come from now on, or no longer */
  EVENT_CONFIGURE,     /* other options from now on */
  EVENT_COUNT,
};

struct event {
  enum event_kind kind;
  struct completion *completion;          /* EVENT_COMPLETION; its item passes to the consumer */
  enum wakeup_about about;                /* EVENT_WAKE */
  struct owner owner;                     /* EVENT_WAKE: the acquisition that it is for, unless it is about messages */
  bool notified;                          /* EVENT_NOTIFICATIONS */
  const struct consumer_options *options; /* EVENT_CONFIGURE; copied */
};

struct consumer { /* the machines, each with its own fields */
  struct core core;
  struct lease lease;
  struct pace pace;
  struct trust trust;
  struct seek seek;
  struct epoch epoch;
};

/* Reads nothing and starts nothing; the first event begins the work. */
void consumer_init(struct consumer *consumer, const char *type, const struct consumer_options *options);
/* Frees what the consumer still holds. Only when no action is running. */
void consumer_deinit(struct consumer *consumer);

/*
 * Handles one event. *effects is overwritten: the caller starts the actions and logs the notes. A completion with another
 * number than the awaited one is only freed.
 */
void consumer_handle(struct consumer *consumer, const struct event *event, const struct moment *moment, struct effects *effects);

/* When the next EVENT_TIMER is due at the latest; INT64_MAX: only after a completion. */
int64_t consumer_wake_ms(const struct consumer *consumer);

/* How long the running action may go on to its next step: to two thirds of the lease; 0: asked to stop, or the lock is lost. */
int64_t consumer_until_ms(const struct consumer *consumer);

/* Whether the consumer has the lock, as far as it knows. */
bool consumer_holds(const struct consumer *consumer);
/* While it has the lock: when the lease ends unless it is renewed. */
int64_t consumer_lease_end_ms(const struct consumer *consumer);
/* How much its batches have in memory. */
int64_t consumer_bytes(const struct consumer *consumer);
/* Whether the last poll found nothing. */
bool consumer_sees_nothing(const struct consumer *consumer);
/* Whether it has seen a message, and has the lock or is on its way there. */
bool consumer_is_busy(const struct consumer *consumer, int64_t now_ms);

/* Whether the last check of the storage succeeded, and no action hangs. False: `why` is filled, and names the type. */
MUST_CHECK bool consumer_trusts(const struct consumer *consumer, int64_t now_ms, struct error *why);

/*
 * Whether the last poll of --exit-when-empty may be made: idle or waiting, and its own poll found nothing; or all that was read is written
 * and deleted, and a pass looks for more; or it releases the lock after a pass that found nothing. The next poll may be under way: of many
 * types some always poll.
 */
bool consumer_is_quiet(const struct consumer *consumer);
/* Whether it is stopped or done, and runs nothing; a renewal may still run, because its answer does not matter any more. */
bool consumer_is_over(const struct consumer *consumer);

#endif
