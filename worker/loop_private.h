/*
 * loop_private: shared by loop.c, loop_types.c (the types that are served), loop_leave.c (when they are let go), loop_spread.c (those
 * among the workers), loop_wakeups.c and loop_commands.c (SIGHUP and SIGUSR1). Private to these files.
 */
#ifndef PAWL_WORKER_LOOP_PRIVATE_H
#define PAWL_WORKER_LOOP_PRIVATE_H

#include "worker/aside.h"
#include "worker/database_log.h"
#include "worker/health.h"
#include "worker/jobs.h"
#include "worker/last_poll.h"
#include "worker/loop.h"
#include "worker/notifications.h"
#include "worker/space.h"
#include "worker/spread.h"
#include "worker/systemd.h"
#include "worker/type_look.h"
#include "worker/waiting.h"

struct loop;
struct watchers; /* the event loop; loop.c */

struct type_context { /* what belongs to one type */
  struct loop *loop;
  struct consumer consumer;
  struct performer performer;
  size_t running;           /* actions */
  bool looked;              /* found by a look, not by a wake-up */
  bool leaves;              /* of those that were found: asked to leave, to be forgotten */
  bool woken;               /* and a wake-up came meanwhile, or was being seen to */
  bool placeless;           /* it keeps no place: it has stopped because it is paused, or it hangs, and `leaves` */
  struct aside_pause pause; /* leaves: how long it is put aside; below 0 ms: not at all */
};

struct finder { /* of types by patterns */
  struct type_look look;
  struct executor *executor;
  size_t count;            /* contexts that were found, and keep a place */
  struct waiting waiting;  /* found, and neither served nor held by others */
  struct type_list held;   /* by other processes, as the last look found them; sorted */
  int64_t begun_ms;        /* when the last one was begun */
  int64_t looked_ms;       /* when the last look that was answered came back; 0: none was */
  int64_t wait_until_ms;   /* when the next one may be; 0: now */
  struct worker_row *rows; /* of the other workers, WORKER_ROWS_MAX */
  size_t row_count;
  struct address given_to; /* the process that types were given to last, */
  int64_t given_ms, given; /* when, and how many: its row may be older */
  int64_t failed_ms;       /* when one that fails made room for others */
  int64_t unfit_until_ms;  /* until then it asks for none: there was one that it could not serve */
  bool logged_unspread, logged_denied;
  struct job leave; /* removes the row of this worker */
  enum { ROW_STAYS, ROW_GOES, ROW_GONE } own_row;
  type_name turn; /* the last one that was begun: the next one is the one after it */
  struct aside aside;
  struct type_list served;          /* while a look is judged */
  struct type_list stopped;         /* then, and for the last look */
  struct consumer_counts forgotten; /* of contexts that are gone */
  bool heard;                       /* a wake-up came since the last look */
  bool quiet;                       /* the last look has seen nothing to wait for */
  bool refused;                     /* the database check failed */
  bool empty;                       /* --exit-when-empty: nothing is left */
};

struct loop {
  const struct loop_options *options;
  struct watchers *watchers;
  struct jobs jobs;
  struct notifications *notifications; /* NULL: it could not be started */
  bool notified;                       /* wake-ups come */
  bool logged_unnotified;              /* that they do not */
  struct type_context **contexts;      /* those that are listed come first */
  size_t context_count, context_room;
  struct finder *finder; /* NULL: all types are listed */
  struct health *health; /* NULL: none is wanted, */
  struct space *space;   /* and nobody asks for this */
  struct systemd systemd;
  struct reload *reload;
  bool on_terminal; /* at the start */
  char summary[SYSTEMD_STATUS_SIZE];
  const struct consumer **consumers; /* the contexts', for those two */
  int64_t started_wall_us;
  struct last_poll last;
  bool ready_sent; /* the service manager */
  struct database_log database;
  bool stopping;
  bool signalled, timed_out;
};

/* Writes a line of the process. */
void loop_say(enum config_log_level level, const char *event, const char *text);
/* Hands an event to the type's consumer, and its actions to the threads. */
void loop_dispatch(struct type_context *served, const struct event *event);
/* A message is there, perhaps in an own collection of which its type has not heard. */
void loop_wake_all(struct loop *loop);
/* Fills in what the process knows of itself; `context` is the loop. */
void loop_look(void *context, struct metrics_view *view);
/* The same in a line for people. */
const char *loop_summary(struct loop *loop);
/* Asked to stop; at the second time the process exits. */
void loop_stop(struct loop *loop, const char *why);

/* loop_types.c: the contexts of the types that are listed, and the finder of the others. False: no memory, or no thread. */
MUST_CHECK bool loop_types_start(struct loop *loop, void (*notify)(void *context), struct error *error);
/* Takes a look that came back. */
void loop_types_take(struct loop *loop);
/* After whatever happened: forgets types, takes up others, looks for more. Returns when it is to be called again; INT64_MAX: not by time.
 */
int64_t loop_types_step(struct loop *loop);
/* A wake-up about messages of a type that is not served at present; wake-ups may have been missed. */
void loop_types_wake(struct loop *loop, const char *type);
void loop_types_hurry(struct loop *loop);
/* Types that were found and have stopped are taken up once more. */
void loop_types_retry(struct loop *loop);
/* Whether nothing is to be done any more: no type is served, and none is looked for. */
bool loop_types_over(const struct loop *loop);
/* Fills in what is known of the types that were found. */
void loop_types_look(const struct loop *loop, struct metrics_view *view);
/* The options of a consumer, as the configuration is now. */
void loop_consumer_options(const struct loop *loop, struct consumer_options *options);

/* loop_types.c, for the next two: whether a place is free. */
bool loop_has_room(const struct loop *loop);

/* loop_leave.c: a type that was found is let go where it has nothing to do, or nothing that it can do; the second: where it has nothing to
 * write, because others wait for its place. */
void loop_leave_if_needless(struct type_context *served, int64_t now_ms);
void loop_leave_if_empty(struct loop *loop);
/* Its disk hangs: it keeps a thread, and no place. */
bool loop_is_hung(const struct type_context *served);
/* The type that this process holds for longest, of those that were found; NULL: none. */
struct type_context *loop_longest_held(const struct loop *loop);
/* A type that was found is let go, and put aside for so long; below 0 ms: not at all. */
void loop_context_leave(struct type_context *served, struct aside_pause pause);

/* loop_spread.c, for loop_types.c: how many types it holds, is about to hold, that have stopped, or that hang; not those that leave. */
int64_t loop_held_count(const struct loop *loop);
/* Whether a process that has fewer is to take a type first, that has been seen free since then. */
bool loop_others_first(struct loop *loop, int64_t free_since_ms, int64_t now_ms);
/* Takes the rows of the others from a look. */
void loop_rows_take(struct loop *loop);
/* Lets types go, to those that ask for some. */
void loop_give_types(struct loop *loop);
/* The row of this process, as it is now; and its end, when the process stops: returns when it is to be called again, INT64_MAX: not by
 * time. */
void loop_row_fill(const struct loop *loop, struct worker_row *row);
int64_t loop_row_leave(struct loop *loop);

/* loop_wakeups.c: begins to wait for wake-ups; takes those that came. */
void loop_wakeups_start(struct loop *loop, void (*notify)(void *context));
void loop_wakeups_take(struct loop *loop);

/* loop_commands.c: before the loop runs; then SIGHUP and SIGUSR1 have come; takes what was read, if it is there. */
void loop_commands_start(struct loop *loop);
void loop_hangup(struct loop *loop);
void loop_report(struct loop *loop);
void loop_take_reload(struct loop *loop);

#endif
