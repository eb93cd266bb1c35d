/* process: a worker with its consumers, one a type; started, frozen, asked to stop, killed, started again. */
#ifndef PAWL_TESTS_SIMULATION_PROCESS_H
#define PAWL_TESTS_SIMULATION_PROCESS_H

#include "fiber.h"
#include "worker/consumer.h"
#include "worker/perform.h"
#include "world.h"

struct station { /* a type in a process */
  struct process *process;
  int type;
  int64_t incarnation; /* of the process */
  char error[640];     /* the last that it said */
  struct consumer consumer;
  struct performer performer;
  struct fiber *fibers[ACTIVITY_COUNT];
  int64_t timer_us; /* when it is to be woken; INT64_MAX: not at all */
  uint64_t timer_ticket;
  uint64_t fewer_numbers[ACTIVITY_COUNT]; /* of the actions in which a delete did not find all that it names */
  int64_t faults_at_opening;              /* of its disk */
  /* for the plants: the epoch in hand as the ledger knows it */
  int64_t epoch;
  struct owner owner;
  bool wrote;
  uint64_t commit_operation;
  struct ledger checked;
  bool matched_nothing; /* the last fence, a repetition */
};

struct process {
  int index, machine;
  int64_t incarnation;
  bool up, stopping;
  bool older;       /* of a pawl that knows no `guarded` */
  bool watching[2]; /* wake-ups come: what is for all; what is for this one */
  int64_t frozen_until_us, cut_off_until_us;
  bool behind; /* it talks to a primary that was replaced, and does not know it */
  bool exits;  /* --exit-when-empty */
  struct {     /* its last look */
    struct fiber *fiber;
    const char *types[TYPES_MAX];
    size_t count;
    enum outcome outcome;
    int64_t began_us, next_us;
  } last;
  uint64_t operation;             /* the latest of the queue's that it has seen acknowledged */
  int64_t busy_epochs[TYPES_MAX]; /* the last in which a guard of the type was busy; outlives the process */
  int station_count;
  struct station stations[TYPES_MAX];
  /* those that become due while one is under way go together; a bit a station */
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
/* Its descriptors are closed, its guards free; what it was doing does not happen. Only from the main stack. */
void process_die(struct process *process);
void process_stop(struct process *process); /* SIGTERM */
/* Dies now, and is there again after a while. */
void process_crash_soon(struct process *process);
void processes_end(void);

/*
 * A wake-up for one process, or for all (-1). It comes soon, or late, or not, or twice; and only to who watches.
 */
void processes_wake(int process, int type, enum wakeup_about about);

/* In a fiber: all renewals that wait, in one request. And they have come back. */
void process_renew(struct process *process);
void process_renewed(struct process *process);
/* In a fiber: the last look of --exit-when-empty. And it has come back. */
void process_last_look(struct process *process);
void process_last_looked(struct process *process);
/* The action has come back. */
void station_done(struct station *station, struct completion *completion);

#endif
