#include "process.h"
#include "chaos.h"
#include "checks.h"
#include "disk.h"
#include "plants.h"
#include "server.h"
#include "trace.h"

#include <assert.h>
#include <stdlib.h>

enum { STOP_LIMIT_MS = 8000 };

struct process processes[PROCESSES_MAX];

static const char *const type_names[TYPES_MAX] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"};

const char *type_name(int type)
{
  return type_names[type];
}

int type_index(const char *type)
{
  return type[1] - '0';
}

const struct machine *process_machine(const struct process *process)
{
  return &world.machines[chaos_plan.one_kernel ? 0 : process->machine];
}

/* ---- what the loop does ---- */

static void process_look(struct process *process);
static void last_look_start(struct process *process);

static struct moment moment_now(const struct process *process)
{
  struct moment moment = {.now_ms = machine_boot_ms(process_machine(process)), .wall_us = machine_wall_us(process_machine(process))};
  uint64_t low = world_random(), high = world_random();
  memcpy(moment.random, &low, sizeof low);
  memcpy(moment.random + sizeof low, &high, sizeof high);
  return moment;
}

static void timer_fire(void *context, uint64_t ticket);

static void timer_arm(struct type_context *served)
{
  int64_t wake_ms = consumer_wake_ms(&served->consumer);
  int64_t at_us = wake_ms == INT64_MAX ? INT64_MAX : machine_boot_to_us(process_machine(served->process), wake_ms);
  if (at_us == served->timer_us)
    return;
  served->timer_us = at_us;
  served->timer_ticket++;
  if (at_us != INT64_MAX)
    world_at(at_us + (world_chance(0.1) ? world_between(0, 20 * MS) : 0), timer_fire, served, served->timer_ticket);
}

static void event_write(struct type_context *served, const struct log_event *event)
{
  if (strcmp(event->name, "disk") == 0)
    checks_disk_failed(served, event->text);
  if (event->level == LEVEL_ERROR)
    snprintf(served->error, sizeof served->error, "%s", event->text);
  if (event->level != LEVEL_DEBUG)
    trace_add(served->process->index, served->type, "epoch %lld seq %lld  %s: %.160s", (long long)event->epoch, (long long)event->seq,
              event->name, event->text);
}

static void edges_look(struct type_context *served, enum consumer_state before)
{
  struct consumer *consumer = &served->consumer;
  if (consumer->core.state == before)
    return;
  if (consumer->core.state == STATE_OPENING && consumer->epoch.rolling) {
    world.rolls++;
  } else if (consumer->core.state == STATE_OPENING) {
    world.takeovers++;
    world.takeovers_unclean += consumer->epoch.before.has_owner && !consumer->epoch.before.clean;
  } else if (consumer->core.state == STATE_STOPPED) {
    world_fail("worker %d stops %s with exit code 74 although the storage is as it was written: %.600s", served->process->index,
               type_name(served->type), served->error);
  }
  if (consumer->core.state == STATE_OPENING) {
    served->faults_at_opening = disk_faults(served->process->index);
    served->epoch = consumer->core.epoch;
    served->owner = consumer->core.owner;
    served->wrote = false;
  }
}

static void renewals_start(struct process *process)
{
  int first = 0;
  if (process->renewals_running != 0 || process->renewals_waiting == 0)
    return;
  while (!(process->renewals_waiting & 1u << first))
    first++;
  process->renewals_running = 1u << first; /* only the first until the request begins; then it takes the others along */
  process->contexts[first].fibers[ACTIVITY_RENEW] =
      fiber_start(&process->contexts[first], &process->renew_actions[first], world_chance(chaos_plan.yield) ? world_between(0, 3 * MS) : 0);
}

void process_renew(struct process *process)
{
  struct renewal renewals[TYPES_MAX];
  size_t count = 0;
  process->renewals_running = process->renewals_waiting;
  process->renewals_waiting = 0;
  for (int i = 0; i < process->context_count; i++)
    if (process->renewals_running & 1u << i)
      renewals[count++] = (struct renewal){
          .performer = &process->contexts[i].performer, .action = &process->renew_actions[i], .completion = &process->renew_completions[i]};
  perform_renewals(renewals, count);
}

void process_renewed(struct process *process)
{
  int64_t incarnation = process->incarnation;
  unsigned running = process->renewals_running;
  for (int i = 0; i < TYPES_MAX && process->incarnation == incarnation; i++) {
    struct completion *completion = &process->renew_completions[i];
    if (!(running & 1u << i))
      continue;
    if (completion->result == RESULT_YES)
      checks_took_for_renewed(&process->contexts[i], &process->renew_actions[i].owner, completion->sent_ms);
    process->renewals_running &= ~(1u << i);
    type_done(&process->contexts[i], completion);
  }
  if (process->incarnation == incarnation)
    renewals_start(process);
}

static void dispatch(struct type_context *served, const struct event *event)
{
  static struct effects effects;
  struct moment moment = moment_now(served->process);
  enum consumer_state before = served->consumer.core.state;
  consumer_handle(&served->consumer, event, &moment, &effects);
  for (int i = 0; i < effects.event_count; i++)
    event_write(served, &effects.events[i]);
  performer_until(&served->performer, consumer_until_ms(&served->consumer));
  for (int i = 0; i < effects.action_count; i++) {
    struct action *action = &effects.actions[i];
    if (action->kind == ACTION_RENEW) {
      int index = (int)(served - served->process->contexts);
      served->process->renew_actions[index] = *action;
      served->process->renewals_waiting |= 1u << index;
      continue;
    }
    if (action->kind == ACTION_READ && action->begin)
      performer_take_up_read(&served->performer);
    plants_action(served, action);
    int64_t delay_us = world_chance(chaos_plan.yield) ? world_between(0, 3 * MS) : 0;
    served->fibers[action->activity] = fiber_start(served, action, delay_us);
  }
  if (effects.drop_read)
    performer_drop_read(&served->performer);
  renewals_start(served->process);
  edges_look(served, before);
  timer_arm(served);
}

static void timer_fire(void *context, uint64_t ticket)
{
  struct type_context *served = context;
  struct event timer = {.kind = EVENT_TIMER};
  if (!served->process->up || served->timer_ticket != ticket)
    return;
  if (served->process->frozen_until_us > world.now_us) {
    world_at(served->process->frozen_until_us + world_between(0, 5 * MS), timer_fire, served, ticket);
    return;
  }
  served->timer_us = INT64_MAX;
  dispatch(served, &timer);
  process_look(served->process);
}

void type_done(struct type_context *served, struct completion *completion)
{
  struct event event = {.kind = EVENT_COMPLETION, .completion = completion};
  served->fibers[completion->activity] = NULL;
  served->wrote = served->wrote || (completion->kind == ACTION_APPEND && completion->result != RESULT_NO_SPACE);
  plants_completion(served, completion);
  if (completion->kind == ACTION_APPEND && completion->result != RESULT_NO_SPACE && completion->result != RESULT_FAILED)
    checks_appended(served, completion);
  if (completion->kind == ACTION_TAKE && completion->result == RESULT_YES)
    checks_took(served, &served->consumer.core.owner, completion->sent_ms);
  if (completion->kind == ACTION_FENCE && completion->result == RESULT_NO)
    checks_not_fenced(served);
  dispatch(served, &event);
  process_look(served->process);
}

/* ---- wake-ups ---- */

/* Packs the acquisition's number (0: none), the type and the wake-up's subject into one number. */
static uint64_t wake_pack(uint64_t acquisition, int type, enum wakeup_about about)
{
  return acquisition << 8 | (uint64_t)type << 4 | about;
}

/* What comes to a later process of the same number is for an acquisition that it does not know. */
static void wake_arrive(void *context, uint64_t argument)
{
  struct process *process = context;
  struct event event = {.kind = EVENT_WAKE, .about = (enum wakeup_about)(argument & 15)};
  if (!process->up)
    return;
  if (process->frozen_until_us > world.now_us) {
    world_at(process->frozen_until_us + world_between(0, 5 * MS), wake_arrive, process, argument);
    return;
  }
  if (argument >> 8 != 0)
    event.owner = server_owner(process->index, argument >> 8);
  for (int i = 0; i < process->context_count; i++)
    if (process->contexts[i].type == (int)(argument >> 4 & 15)) {
      dispatch(&process->contexts[i], &event);
      break;
    }
  process_look(process);
}

void processes_wake(int type, enum wakeup_about about, const struct owner *owner)
{
  int process = -1;
  uint64_t acquisition = owner != NULL ? server_owner_parse(owner, &process) : 0;
  for (int i = 0; i < chaos_plan.processes; i++) {
    struct process *to = &processes[i];
    if ((process >= 0 && process != i) || !to->up || !to->notified || world_chance(chaos_plan.wakeups_lost))
      continue;
    for (int copies = world_chance(0.05) ? 2 : 1; copies > 0; copies--) {
      int64_t delay_us = world_chance(0.9) ? world_between(0, 5 * MS) : world_between(0, 3 * SECONDS);
      world_at(world.now_us + delay_us, wake_arrive, to, wake_pack(acquisition, type, about));
    }
  }
}

void processes_wake_waiters(int type)
{
  for (int i = 0; i < chaos_plan.processes; i++)
    for (int j = 0; j < processes[i].context_count; j++)
      if (processes[i].contexts[j].type == type)
        processes_wake(type, WAKEUP_LOCK, &processes[i].contexts[j].consumer.seek.acquisition.owner);
}

/* Inserts a false wake-up: for all, or for a worker's current acquisition. */
static void wake_invent(const struct process *process)
{
  const struct type_context *served = &process->contexts[world_between(0, process->context_count - 1)];
  enum wakeup_about about = (enum wakeup_about)world_between(WAKEUP_MESSAGE, WAKEUP_LOST);
  processes_wake(served->type, about, about != WAKEUP_MESSAGE ? &served->consumer.seek.acquisition.owner : NULL);
}

/* The cursor for wake-ups comes or goes. */
static void notifications_change(void *context, uint64_t incarnation)
{
  struct process *process = context;
  if (!process->up || process->incarnation != (int64_t)incarnation)
    return;
  if (process->frozen_until_us <= world.now_us) {
    struct event event = {.kind = EVENT_NOTIFICATIONS, .notified = !process->notified};
    process->notified = event.notified;
    for (int i = 0; i < process->context_count; i++)
      dispatch(&process->contexts[i], &event);
    if (process->notified)
      wake_invent(process);
    process_look(process);
  }
  if (process->up && process->incarnation == (int64_t)incarnation)
    world_at(world.now_us + (process->notified ? world_between(0, 60 * SECONDS) : world_between(0, 3 * SECONDS)), notifications_change,
             process, incarnation);
}

/* ---- life and death ---- */

static void performer_make(struct type_context *served, struct performer_options *options)
{
  const struct process *process = served->process;
  const struct machine *machine = process_machine(process);
  memset(options, 0, sizeof *options);
  options->store = server_store;
  options->database = "pawl";
  options->writer =
      (struct writer_options){.dir = "/files", .type = type_name(served->type), .permissions = 0640, .codec_zstd = chaos_plan.zstd};
  snprintf(options->writer.identity.host, sizeof options->writer.identity.host, "host%d", process->machine);
  snprintf(options->writer.identity.machine, sizeof options->writer.identity.machine, "%s", machine->boot_id);
  options->writer.identity.pid = process->index * 1000 + process->incarnation;
  snprintf(options->holder.host, sizeof options->holder.host, "host%d", process->machine);
  snprintf(options->holder.boot, sizeof options->holder.boot, "%s", machine->boot_id);
  options->holder.pid = options->writer.identity.pid;
  options->batch_messages = chaos_plan.batch_messages;
  options->batch_bytes = chaos_plan.batch_bytes;
  options->range_messages_min = 2;
}

static void type_init(struct process *process, int type)
{
  struct type_context *served = &process->contexts[process->context_count++];
  struct performer_options performer;
  struct consumer_options consumer = chaos_plan.consumer;
  plants_options(&consumer);
  served->process = process;
  served->type = type;
  served->incarnation = process->incarnation;
  served->error[0] = 0;
  memset(served->fewer_numbers, 0, sizeof served->fewer_numbers);
  memset(served->fibers, 0, sizeof served->fibers);
  served->timer_us = INT64_MAX;
  performer_make(served, &performer);
  performer_init(&served->performer, &performer);
  consumer_init(&served->consumer, type_name(type), &consumer);
}

void process_start(struct process *process)
{
  struct event timer = {.kind = EVENT_TIMER};
  assert(!process->up);
  process->up = true;
  process->stopping = false;
  process->incarnation++;
  process->frozen_until_us = process->cut_off_until_us = 0;
  process->behind = false;
  process->exits = chaos_plan.exits && world_chance(0.5);
  memset(&process->last, 0, sizeof process->last);
  process->operation = 0;
  process->renewals_waiting = process->renewals_running = 0;
  process->context_count = 0;
  /* Each type has a worker, and some workers serve all types. */
  uint64_t types = chaos_plan.all_serve_all ? UINT64_MAX : world_random();
  for (int type = 0; type < chaos_plan.types; type++)
    if ((types >> type & 1) != 0 || type % chaos_plan.processes == process->index || chaos_plan.types == 1)
      type_init(process, type);
  if (process->context_count == 0)
    type_init(process, (int)world_between(0, chaos_plan.types - 1));
  trace_add(process->index, -1, "starts on %s", process_machine(process)->boot_id);
  for (int i = 0; i < process->context_count; i++)
    dispatch(&process->contexts[i], &timer);
  process->notified = false;
  if (chaos_plan.wakeups)
    world_at(world.now_us + world_between(0, 2 * SECONDS), notifications_change, process, (uint64_t)process->incarnation);
}

void process_die(struct process *process)
{
  assert(process->up);
  process->up = false;
  process->incarnation++; /* what the old incarnation sent, and is still on its way, does not belong to the new one */
  disk_process_died(process->index);
  if (process->last.fiber != NULL)
    fiber_kill(process->last.fiber);
  for (int i = 0; i < process->context_count; i++)
    for (int k = 0; k < ACTIVITY_COUNT; k++)
      if (process->contexts[i].fibers[k] != NULL)
        fiber_kill(process->contexts[i].fibers[k]);
  for (int i = 0; i < process->context_count; i++) {
    process->contexts[i].timer_ticket++;
    consumer_deinit(&process->contexts[i].consumer);
    performer_deinit(&process->contexts[i].performer);
  }
}

/* ---- --exit-when-empty, as the loop does it ---- */

enum { LAST_LOOK_AGAIN_MS = 100 };

static void last_look_start(struct process *process)
{
  struct action action = {.kind = ACTION_COUNT};
  if (!process->exits || !process->up || process->stopping || process->last.fiber != NULL || world.now_us < process->last.next_us)
    return;
  process->last.count = 0;
  for (int i = 0; i < process->context_count; i++) {
    if (!consumer_is_quiet(&process->contexts[i].consumer))
      return;
    process->last.types[process->last.count++] = process->contexts[i].consumer.core.type;
  }
  process->last.began_us = world.now_us;
  process->last.fiber = fiber_start(&process->contexts[0], &action, world_between(0, 3 * MS));
}

void process_last_look(struct process *process)
{
  struct error ignored;
  process->last.outcome = perform_last_poll(server_store, process->last.types, process->last.count, &ignored);
}

void process_last_looked(struct process *process)
{
  process->last.fiber = NULL;
  process->last.next_us = world.now_us + LAST_LOOK_AGAIN_MS * MS;
  if (process->last.outcome != OUTCOME_NO)
    return;
  checks_exits_empty(process);
  process_stop(process);
}

static void start_later(void *context, uint64_t incarnation)
{
  struct process *process = context;
  if (!process->up && process->incarnation == (int64_t)incarnation)
    process_start(process);
}

static void restart(struct process *process)
{
  int64_t pause_us = world_chance(0.5) ? world_between(0, 200 * MS) : world_between(0, 3 * chaos_plan.lease_ms * MS);
  world_at(world.now_us + pause_us, start_later, process, (uint64_t)process->incarnation);
}

static void crash(void *context, uint64_t incarnation)
{
  struct process *process = context;
  if (!process->up || process->incarnation != (int64_t)incarnation)
    return;
  trace_add(process->index, -1, "is killed");
  process_die(process);
  restart(process);
}

void process_crash_soon(struct process *process)
{
  world_at(world.now_us, crash, process, (uint64_t)process->incarnation);
}

void process_stop(struct process *process)
{
  struct event stop = {.kind = EVENT_STOP};
  if (!process->up || process->stopping || process->frozen_until_us > world.now_us)
    return;
  trace_add(process->index, -1, "is asked to stop");
  process->stopping = true;
  int64_t limit_ms = machine_boot_ms(process_machine(process)) + STOP_LIMIT_MS;
  world_at(machine_boot_to_us(process_machine(process), limit_ms), crash, process, (uint64_t)process->incarnation);
  for (int i = 0; i < process->context_count; i++)
    dispatch(&process->contexts[i], &stop);
  process_look(process);
}

/* Ends the process if it has nothing left to do. */
static void process_look(struct process *process)
{
  last_look_start(process);
  if (!process->stopping || !process->up)
    return;
  for (int i = 0; i < process->context_count; i++)
    if (!consumer_is_over(&process->contexts[i].consumer))
      return;
  trace_add(process->index, -1, "ends");
  process_die(process);
  restart(process);
}

void processes_begin(void)
{
  memset(processes, 0, sizeof processes);
  for (int i = 0; i < chaos_plan.processes; i++) {
    processes[i].index = i;
    processes[i].machine = i % chaos_plan.machines;
    processes[i].older = chaos_plan.older && !chaos_is_local(processes[i].machine);
    world_at(world_between(0, 500 * MS), start_later, &processes[i], 0);
  }
}

void processes_end(void)
{
  for (int i = 0; i < PROCESSES_MAX; i++)
    if (processes[i].up)
      process_die(&processes[i]);
}
