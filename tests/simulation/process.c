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

static void timer_arm(struct station *station)
{
  int64_t wake_ms = consumer_wake_ms(&station->consumer);
  int64_t at_us = wake_ms == INT64_MAX ? INT64_MAX : machine_boot_to_us(process_machine(station->process), wake_ms);
  if (at_us == station->timer_us)
    return;
  station->timer_us = at_us;
  station->timer_ticket++;
  if (at_us != INT64_MAX)
    world_at(at_us + (world_chance(0.1) ? world_between(0, 20 * MS) : 0), timer_fire, station, station->timer_ticket);
}

static void note_write(struct station *station, const struct note *note)
{
  if (strcmp(note->event, "disk") == 0)
    checks_disk_failed(station, note->text);
  if (note->level == NOTE_ERROR)
    snprintf(station->error, sizeof station->error, "%s", note->text);
  if (note->level != NOTE_DEBUG)
    trace_add(station->process->index, station->type, "epoch %lld seq %lld  %s: %.160s", (long long)note->epoch, (long long)note->seq,
              note->event, note->text);
}

static void edges_look(struct station *station, enum consumer_state before)
{
  struct consumer *consumer = &station->consumer;
  if (consumer->core.state == before)
    return;
  if (consumer->core.state == STATE_OPENING && consumer->epoch.rolling) {
    world.rolls++;
  } else if (consumer->core.state == STATE_OPENING) {
    world.takeovers++;
    world.takeovers_unclean += consumer->epoch.before.epoch > 0 && !consumer->epoch.before.clean;
  } else if (consumer->core.state == STATE_STOPPED) {
    world_fail("worker %d stops %s with exit code 74 although the storage is as it was written: %.600s", station->process->index,
               type_name(station->type), station->error);
  }
  if (consumer->core.state == STATE_OPENING) {
    station->faults_at_opening = disk_faults(station->process->index);
    station->epoch = consumer->core.epoch;
    station->owner = consumer->core.owner;
    station->wrote = false;
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
  process->stations[first].fibers[ACTIVITY_RENEW] =
      fiber_start(&process->stations[first], &process->renew_actions[first], world_chance(chaos_plan.yield) ? world_between(0, 3 * MS) : 0);
}

void process_renew(struct process *process)
{
  struct renewal renewals[TYPES_MAX];
  size_t count = 0;
  process->renewals_running = process->renewals_waiting;
  process->renewals_waiting = 0;
  for (int i = 0; i < process->station_count; i++)
    if (process->renewals_running & 1u << i)
      renewals[count++] = (struct renewal){
          .performer = &process->stations[i].performer, .action = &process->renew_actions[i], .completion = &process->renew_completions[i]};
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
      checks_took_for_renewed(&process->stations[i], &process->renew_actions[i].owner, completion->sent_ms);
    process->renewals_running &= ~(1u << i);
    station_done(&process->stations[i], completion);
  }
  if (process->incarnation == incarnation)
    renewals_start(process);
}

static void feed(struct station *station, const struct event *event)
{
  static struct effects effects;
  struct moment moment = moment_now(station->process);
  enum consumer_state before = station->consumer.core.state;
  consumer_handle(&station->consumer, event, &moment, &effects);
  for (int i = 0; i < effects.note_count; i++)
    note_write(station, &effects.notes[i]);
  performer_until(&station->performer, consumer_until_ms(&station->consumer));
  for (int i = 0; i < effects.action_count; i++) {
    struct action *action = &effects.actions[i];
    if (action->kind == ACTION_RENEW) {
      int index = (int)(station - station->process->stations);
      station->process->renew_actions[index] = *action;
      station->process->renewals_waiting |= 1u << index;
      continue;
    }
    if (action->kind == ACTION_READ && action->begin)
      performer_take_up_read(&station->performer);
    plants_action(station, action);
    int64_t delay_us = world_chance(chaos_plan.yield) ? world_between(0, 3 * MS) : 0;
    station->fibers[action->activity] = fiber_start(station, action, delay_us);
  }
  if (effects.drop_read)
    performer_drop_read(&station->performer);
  renewals_start(station->process);
  edges_look(station, before);
  timer_arm(station);
}

static void timer_fire(void *context, uint64_t ticket)
{
  struct station *station = context;
  struct event timer = {.kind = EVENT_TIMER};
  if (!station->process->up || station->timer_ticket != ticket)
    return;
  if (station->process->frozen_until_us > world.now_us) {
    world_at(station->process->frozen_until_us + world_between(0, 5 * MS), timer_fire, station, ticket);
    return;
  }
  station->timer_us = INT64_MAX;
  feed(station, &timer);
  process_look(station->process);
}

void station_done(struct station *station, struct completion *completion)
{
  struct event event = {.kind = EVENT_COMPLETION, .completion = completion};
  station->fibers[completion->activity] = NULL;
  station->wrote = station->wrote || (completion->kind == ACTION_APPEND && completion->result != RESULT_NO_SPACE);
  plants_completion(station, completion);
  if (completion->kind == ACTION_APPEND && completion->result != RESULT_NO_SPACE && completion->result != RESULT_FAILED)
    checks_appended(station, completion);
  if (completion->kind == ACTION_TAKE && completion->result == RESULT_YES)
    checks_took(station, &station->consumer.core.owner, completion->sent_ms);
  if (completion->kind == ACTION_FENCE && completion->result == RESULT_NO)
    checks_not_fenced(station);
  feed(station, &event);
  process_look(station->process);
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
  for (int i = 0; i < process->station_count; i++)
    if (process->stations[i].type == (int)(argument >> 4 & 15)) {
      feed(&process->stations[i], &event);
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
    if ((process >= 0 && process != i) || !to->up || !to->watching || world_chance(chaos_plan.wakeups_lost))
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
    for (int j = 0; j < processes[i].station_count; j++)
      if (processes[i].stations[j].type == type)
        processes_wake(type, WAKEUP_LOCK, &processes[i].stations[j].consumer.seek.acquisition.owner);
}

/* Somebody makes up a wake-up: for all, or for the acquisition that a worker is at. */
static void wake_invent(const struct process *process)
{
  const struct station *station = &process->stations[world_between(0, process->station_count - 1)];
  enum wakeup_about about = (enum wakeup_about)world_between(WAKEUP_MESSAGE, WAKEUP_LOST);
  processes_wake(station->type, about, about != WAKEUP_MESSAGE ? &station->consumer.seek.acquisition.owner : NULL);
}

/* The cursor for wake-ups comes or goes. */
static void watch_change(void *context, uint64_t incarnation)
{
  struct process *process = context;
  if (!process->up || process->incarnation != (int64_t)incarnation)
    return;
  if (process->frozen_until_us <= world.now_us) {
    struct event event = {.kind = EVENT_WATCH, .watching = !process->watching};
    process->watching = event.watching;
    for (int i = 0; i < process->station_count; i++)
      feed(&process->stations[i], &event);
    if (process->watching)
      wake_invent(process);
    process_look(process);
  }
  if (process->up && process->incarnation == (int64_t)incarnation)
    world_at(world.now_us + (process->watching ? world_between(0, 60 * SECONDS) : world_between(0, 3 * SECONDS)), watch_change, process,
             incarnation);
}

/* ---- life and death ---- */

static void performer_make(struct station *station, struct performer_options *options)
{
  const struct process *process = station->process;
  const struct machine *machine = process_machine(process);
  memset(options, 0, sizeof *options);
  options->store = server_store;
  options->database = "pawl";
  options->writer = (struct writer_options){.dir = "/files",
                                            .type = type_name(station->type),
                                            .permissions = 0640,
                                            .codec_zstd = chaos_plan.zstd,
                                            .lease_ms = chaos_plan.lease_ms};
  snprintf(options->writer.identity.host, sizeof options->writer.identity.host, "host%d", process->machine);
  snprintf(options->writer.identity.machine, sizeof options->writer.identity.machine, "%s", machine->boot_id);
  options->writer.identity.pid = process->index * 1000 + process->incarnation;
  snprintf(options->holder.host, sizeof options->holder.host, "host%d", process->machine);
  snprintf(options->holder.boot, sizeof options->holder.boot, "%s", machine->boot_id);
  options->holder.pid = options->writer.identity.pid;
  options->lease_ms = chaos_plan.lease_ms;
  options->batch_messages = chaos_plan.batch_messages;
  options->batch_bytes = chaos_plan.batch_bytes;
  options->range_messages_min = 2;
}

static void station_init(struct process *process, int type)
{
  struct station *station = &process->stations[process->station_count++];
  struct performer_options performer;
  struct consumer_options consumer = chaos_plan.consumer;
  plants_options(&consumer);
  station->process = process;
  station->type = type;
  station->incarnation = process->incarnation;
  station->error[0] = 0;
  memset(station->fewer_numbers, 0, sizeof station->fewer_numbers);
  memset(station->fibers, 0, sizeof station->fibers);
  station->timer_us = INT64_MAX;
  performer_make(station, &performer);
  performer_init(&station->performer, &performer);
  consumer_init(&station->consumer, type_name(type), &consumer);
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
  process->station_count = 0;
  /* Each type has a worker, and some workers serve all types. */
  uint64_t types = chaos_plan.all_serve_all ? UINT64_MAX : world_random();
  for (int type = 0; type < chaos_plan.types; type++)
    if ((types >> type & 1) != 0 || type % chaos_plan.processes == process->index || chaos_plan.types == 1)
      station_init(process, type);
  if (process->station_count == 0)
    station_init(process, (int)world_between(0, chaos_plan.types - 1));
  trace_add(process->index, -1, "starts on %s", process_machine(process)->boot_id);
  for (int i = 0; i < process->station_count; i++)
    feed(&process->stations[i], &timer);
  process->watching = false;
  if (chaos_plan.wakeups)
    world_at(world.now_us + world_between(0, 2 * SECONDS), watch_change, process, (uint64_t)process->incarnation);
}

void process_die(struct process *process)
{
  assert(process->up);
  process->up = false;
  process->incarnation++; /* what the old incarnation sent, and is still on its way, does not belong to the new one */
  disk_process_died(process->index);
  if (process->last.fiber != NULL)
    fiber_kill(process->last.fiber);
  for (int i = 0; i < process->station_count; i++)
    for (int k = 0; k < ACTIVITY_COUNT; k++)
      if (process->stations[i].fibers[k] != NULL)
        fiber_kill(process->stations[i].fibers[k]);
  for (int i = 0; i < process->station_count; i++) {
    process->stations[i].timer_ticket++;
    consumer_deinit(&process->stations[i].consumer);
    performer_deinit(&process->stations[i].performer);
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
  for (int i = 0; i < process->station_count; i++) {
    if (!consumer_is_quiet(&process->stations[i].consumer))
      return;
    process->last.types[process->last.count++] = process->stations[i].consumer.core.type;
  }
  process->last.began_us = world.now_us;
  process->last.fiber = fiber_start(&process->stations[0], &action, world_between(0, 3 * MS));
}

void process_last_look(struct process *process)
{
  struct error ignored;
  process->last.outcome = perform_last_look(server_store, process->last.types, process->last.count, &ignored);
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
  for (int i = 0; i < process->station_count; i++)
    feed(&process->stations[i], &stop);
  process_look(process);
}

/* Ends the process if it has nothing left to do. */
static void process_look(struct process *process)
{
  last_look_start(process);
  if (!process->stopping || !process->up)
    return;
  for (int i = 0; i < process->station_count; i++)
    if (!consumer_is_over(&process->stations[i].consumer))
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
