/* process: a worker with its consumers, one per type; it is started, frozen, asked to stop, killed, and started again. */
#ifndef PAWL_TESTS_SIMULATION_PROCESS_H
#define PAWL_TESTS_SIMULATION_PROCESS_H

#include "fiber.h"
#include "worker/consumer.h"
#include "worker/perform.h"
#include "world.h"

struct type_context { /* one type in one process */
  struct process *process;
  int type;
  int64_t incarnation; /* the process's incarnation */
  char error[640];     /* the last error that it logged */
  struct consumer consumer;
  struct performer performer;
  struct fiber *fibers[ACTIVITY_COUNT];
  int64_t timer_us; /* when it is to be woken; INT64_MAX: never */
  uint64_t timer_ticket;
  uint64_t fewer_numbers[ACTIVITY_COUNT]; /* numbers of the actions in which a delete did not find all that it names */
  int64_t faults_at_opening;              /* disk faults of the process when the file was opened */
  /* for the plants: the current epoch as the ledger knows it */
  int64_t epoch;
  struct owner owner;
  bool wrote;
  uint64_t commit_operation;
  struct ledger checked;
  bool matched_nothing; /* the last fence was a repetition, and matched nothing */
  bool name_taken;      /* BEGIN found a file of the new segment's name */
};

struct process {
  int index, machine;
  int64_t incarnation;
  bool up, stopping;
  bool older;    /* it runs an older pawl, which does not know `guarded` */
  bool notified; /* whether wake-ups come */
  int64_t frozen_until_us, cut_off_until_us;
  bool behind; /* it talks to a primary that was replaced, and does not know it */
  bool exits;  /* --exit-when-empty */
  struct {     /* the last poll of --exit-when-empty */
    struct fiber *fiber;
    const char *types[TYPES_MAX];
    size_t count;
    enum outcome outcome;
    int64_t began_us, next_us;
  } last;
  uint64_t operation;             /* the latest operation of the queue that it has seen acknowledged */
  int64_t busy_epochs[TYPES_MAX]; /* the last epoch in which a guard of the type was busy; outlives the process */
  int context_count;
  struct type_context contexts[TYPES_MAX];
  /* renewals that become due while one is under way go together; one bit per type */
  unsigned renewals_waiting, renewals_running;
  struct action renew_actions[TYPES_MAX];
  struct completion renew_completions[TYPES_MAX];
};

extern struct process processes[PROCESSES_MAX];

const struct machine *process_machine(const struct process *process);
const char *type_name(int type);
int type_index(const char *type);

void processes_begin(void);
void process_start(struct process *process);
/* Closes its descriptors and frees its guards; its actions under way do not happen. Only from the main stack. */
void process_die(struct process *process);
void process_stop(struct process *process); /* SIGTERM */
/* The process dies now, and starts again after a while. */
void process_crash_soon(struct process *process);
void processes_end(void);

/*
 * A wake-up for one acquisition (server_owner), or for all (NULL). It comes soon, late, twice, or not at all, and only to a
 * process whose cursor lives.
 */
void processes_wake(int type, enum wakeup_about about, const struct owner *owner);
/* Made-up wake-ups about the lock, for all that may wait for it. */
void processes_wake_waiters(int type);

/* process_renew: in a fiber, sends all waiting renewals in one request. process_renewed: they have come back. */
void process_renew(struct process *process);
void process_renewed(struct process *process);
/* process_last_look: in a fiber, the last poll of --exit-when-empty. process_last_looked: it has come back. */
void process_last_look(struct process *process);
void process_last_looked(struct process *process);
/* The action has come back. */
void type_done(struct type_context *served, struct completion *completion);

#endif
