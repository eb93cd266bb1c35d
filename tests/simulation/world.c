#include "world.h"
#include "fiber.h"
#include "process.h"
#include "worker/clock.h"

#include <assert.h>
#include <stdlib.h>

struct happening {
  int64_t at_us;
  uint64_t order; /* of two events at the same time the one entered first comes first */
  world_call *call;
  void *context;
  uint64_t argument;
};

struct world world;
static struct happening *heap;
static size_t heap_count, heap_size;
static uint64_t heap_order;

/* ---- chance ---- */

uint64_t world_random(void)
{
  uint64_t z = world.random += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

int64_t world_between(int64_t low, int64_t high)
{
  return high <= low ? low : low + (int64_t)(world_random() % (uint64_t)(high - low + 1));
}

static double unit(void)
{
  return (double)(world_random() >> 11) * 0x1p-53;
}

/*
 * Every octave has the same probability. Without libm: its last bits differ from machine to machine, and a seed must give the
 * same run on all.
 */
double world_log_between(double low, double high)
{
  int octaves = 0;
  for (double at = low; at < high; at *= 2)
    octaves++;
  double value = low;
  for (int64_t octave = world_between(0, octaves - 1); octave > 0; octave--)
    value *= 2;
  value *= 1 + unit();
  return value < high ? value : high;
}

bool world_chance(double probability)
{
  return probability > 0 && unit() < probability;
}

/* ---- what happens next: a binary heap ---- */

static bool earlier(const struct happening *a, const struct happening *b)
{
  return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

void world_at(int64_t at_us, world_call *call, void *context, uint64_t argument)
{
  if (heap_count == heap_size) {
    heap_size = heap_size == 0 ? 1024 : 2 * heap_size;
    heap = realloc(heap, heap_size * sizeof *heap);
    assert(heap != NULL);
  }
  struct happening happening = {
      .at_us = at_us < world.now_us ? world.now_us : at_us, .order = heap_order++, .call = call, .context = context, .argument = argument};
  size_t at = heap_count++;
  for (; at > 0 && earlier(&happening, &heap[(at - 1) / 2]); at = (at - 1) / 2)
    heap[at] = heap[(at - 1) / 2];
  heap[at] = happening;
}

static struct happening heap_pop(void)
{
  struct happening first = heap[0], last = heap[--heap_count];
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < heap_count; at = child) {
    if (child + 1 < heap_count && earlier(&heap[child + 1], &heap[child]))
      child++;
    if (!earlier(&heap[child], &last))
      break;
    heap[at] = heap[child];
  }
  heap[at] = last;
  return first;
}

bool world_step(void)
{
  if (heap_count == 0)
    return false;
  struct happening happening = heap_pop();
  world.now_us = happening.at_us;
  world.steps++;
  happening.call(happening.context, happening.argument);
  return true;
}

void world_begin(uint64_t seed)
{
  world = (struct world){.seed = seed, .random = seed * 0x9E3779B97F4A7C15u ^ 0x7061776Cu, .faults = true};
  heap_count = 0;
  heap_order = 0;
  for (int i = 0; i < MACHINES_MAX; i++)
    machine_reboot(i);
}

void world_end(void)
{
  free(heap);
  heap = NULL;
  heap_count = heap_size = 0;
}

/* ---- clocks ---- */

int64_t machine_boot_ms(const struct machine *machine)
{
  return (world.now_us - machine->boot_us) * machine->rate_permille / 1000000;
}

int64_t machine_boot_to_us(const struct machine *machine, int64_t boot_ms)
{
  return machine->boot_us + (boot_ms * 1000000 + machine->rate_permille - 1) / machine->rate_permille;
}

int64_t machine_wall_us(const struct machine *machine)
{
  return 1700000000 * SECONDS + world.now_us + machine->wall_offset_us;
}

void machine_reboot(int index)
{
  struct machine *machine = &world.machines[index];
  machine->boot_us = world.now_us - world_between(0, 1000 * SECONDS);
  machine->rate_permille = world_chance(0.5) ? 1000 : world_between(990, 1010);
  machine->wall_offset_us = world_chance(0.5) ? 0 : world_between(-30 * SECONDS, 30 * SECONDS);
  machine->boots++;
  snprintf(machine->boot_id, sizeof machine->boot_id, "machine-%d-boot-%lld", index, (long long)machine->boots);
}

int64_t server_now_ms(void)
{
  return 1700000000000 + world.now_us / 1000 + world.server_offset_ms;
}

/* worker/clock.h, for perform.c */
int64_t clock_boot_ms(void)
{
  return machine_boot_ms(process_machine(fiber_process()));
}

int64_t clock_boot_us(void)
{
  return clock_boot_ms() * 1000;
}

int64_t clock_wall_us(void)
{
  return machine_wall_us(process_machine(fiber_process()));
}

void world_fail(const char *format, ...)
{
  va_list arguments;
  if (world.failed)
    return;
  world.failed = true;
  va_start(arguments, format);
  vsnprintf(world.failure, sizeof world.failure, format, arguments);
  va_end(arguments);
}
