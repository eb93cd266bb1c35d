#include "disk_parts.h"
#include "fiber.h"
#include "trace.h"
#include "world.h"

#include <assert.h>
#include <stdlib.h>

static struct inode *inodes;
struct name *names;
size_t name_count;
static size_t name_size;
struct descriptor descriptors[DESCRIPTORS_MAX];
int descriptor_next;
int64_t faults[PROCESSES_MAX];

/* ---- bytes ---- */

static void bytes_copy(struct bytes *bytes, const struct bytes *from)
{
  bytes->size = 0;
  bytes_put(bytes, 0, from->at, from->size);
}

static void change_apply(struct bytes *bytes, const struct change *change)
{
  if (change->cut)
    bytes_resize(bytes, change->offset);
  else
    bytes_put(bytes, change->offset, change->bytes, change->size);
}

/* ---- inodes ---- */

struct inode *inode_new(void)
{
  struct inode *inode = calloc(1, sizeof *inode);
  assert(inode != NULL);
  inode->guard = -1;
  inode->next = inodes;
  return inodes = inode;
}

/* Each machine sees the durable bytes and its own changes (`early`: the changes of all machines). */
static void inode_show(struct inode *inode)
{
  for (int machine = 0; machine < chaos_plan.machines; machine++) {
    bytes_copy(&inode->view[machine], &inode->durable);
    for (const struct change *change = inode->changes; change != NULL; change = change->next)
      if (change->machine == machine || chaos_plan.early)
        change_apply(&inode->view[machine], change);
  }
}

void inode_change(struct inode *inode, int machine, bool cut, size_t offset, const void *bytes, size_t size)
{
  struct change *change = malloc(sizeof *change + size), **end = &inode->changes;
  assert(change != NULL);
  *change = (struct change){.machine = machine, .cut = cut, .offset = offset, .size = size};
  if (size > 0)
    memcpy(change->bytes, bytes, size);
  while (*end != NULL)
    end = &(*end)->next;
  *end = change;
  for (int i = 0; i < chaos_plan.machines; i++)
    if (i == machine || chaos_plan.early)
      change_apply(&inode->view[i], change);
}

static void change_apply_part(struct bytes *bytes, const struct change *change)
{
  for (size_t at = 0, step; !change->cut && at < change->size; at += step) {
    step = SECTOR_BYTES - (change->offset + at) % SECTOR_BYTES;
    if (step > change->size - at)
      step = change->size - at;
    if (world_chance(0.5))
      bytes_put(bytes, change->offset + at, change->bytes + at, step);
  }
}

enum fate { FATE_KEPT, FATE_LOST, FATE_MIXED };

/* Ends the machine's changes: they become durable, all, in part, or not at all. */
static void inode_decide(struct inode *inode, int machine, enum fate fate)
{
  for (struct change **at = &inode->changes, *change; (change = *at) != NULL;) {
    if (change->machine != machine) {
      at = &change->next;
      continue;
    }
    if (fate == FATE_KEPT || (fate == FATE_MIXED && world_chance(0.4)))
      change_apply(&inode->durable, change);
    else if (fate == FATE_MIXED)
      change_apply_part(&inode->durable, change);
    *at = change->next;
    free(change);
  }
}

bool inode_has_changes(const struct inode *inode, int machine)
{
  for (const struct change *change = inode->changes; change != NULL; change = change->next)
    if (change->machine == machine)
      return true;
  return false;
}

void inode_sync(struct inode *inode, int machine)
{
  inode_decide(inode, machine, FATE_KEPT);
  for (int i = 0; chaos_plan.machines > 1 && i < chaos_plan.machines; i++)
    if (i != machine)
      inode_show(inode);
}

/*
 * Writing back has failed: the kernel does not try again, and this machine still sees the bytes as if they were written. Each
 * descriptor that is open there reports the failure once. A cut that was lost is seen to be lost: a kernel would write the length with
 * the next change of the file, which this disk does not.
 */
void inode_lose(struct inode *inode, int machine)
{
  bool cut = false;
  for (const struct change *change = inode->changes; change != NULL; change = change->next)
    cut = cut || (change->machine == machine && change->cut);
  for (int i = 0; i < PROCESSES_MAX; i++)
    faults[i]++;
  for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
    if (descriptors[fd].inode == inode && descriptors[fd].machine == machine)
      descriptors[fd].failed = true;
  struct bytes seen = inode->view[machine];
  inode->view[machine] = (struct bytes){0};
  inode_decide(inode, machine, FATE_MIXED);
  inode_show(inode);
  if (!cut && (chaos_is_local(machine) || world_chance(0.5))) {
    free(inode->view[machine].at);
    inode->view[machine] = seen;
  } else {
    free(seen.at);
  }
}

static void inode_check(const struct inode *inode, const char *when)
{
  const struct bytes *now = &inode->durable, *then = &inode->committed;
  if (inode->committed_length == 0)
    return;
  if (now->size < (size_t)inode->committed_length)
    world_fail("%s: a file with %lld committed bytes is only %zu long", when, (long long)inode->committed_length, now->size);
  else if (memcmp(now->at, then->at, (size_t)inode->committed_length) != 0)
    world_fail("%s: committed bytes are not what they were", when);
}

void disk_check(void)
{
  for (const struct inode *inode = inodes; inode != NULL; inode = inode->next)
    inode_check(inode, "in the end");
}

/* ---- names ---- */

int machine_of_caller(void)
{
  return fiber_process() != NULL ? fiber_process()->machine : CHECKER;
}

static uint64_t name_hash(const char *name)
{
  uint64_t hash = 0xCBF29CE484222325u;
  for (; *name != 0; name++)
    hash = (hash ^ (uint8_t)*name) * 0x100000001B3u;
  return hash;
}

struct name *name_find(const char *name)
{
  uint64_t hash = name_hash(name);
  for (size_t i = 0; i < name_count; i++)
    if (names[i].hash == hash && strcmp(names[i].name, name) == 0)
      return &names[i];
  return NULL;
}

struct name *name_add(const char *name)
{
  struct name *entry = name_find(name);
  if (entry != NULL)
    return entry;
  if (name_count == name_size) {
    name_size = name_size == 0 ? 64 : 2 * name_size;
    names = realloc(names, name_size * sizeof *names);
    assert(names != NULL);
  }
  entry = &names[name_count++];
  *entry = (struct name){.hash = name_hash(name)};
  snprintf(entry->name, sizeof entry->name, "%s", name);
  return entry;
}

/* On a network the server has made the change durable. */
void name_set(struct name *entry, struct inode *inode)
{
  entry->now = inode;
  if (!chaos_is_local(machine_of_caller()))
    entry->durable = inode;
}

/* ---- what happens to the disk ---- */

void disk_begin(void)
{
  disk_end();
  descriptor_next = 0;
  memset(faults, 0, sizeof faults);
  memset(descriptors, 0, sizeof descriptors);
}

static void inode_free(struct inode *inode)
{
  for (int i = 0; i < MACHINES_MAX; i++)
    inode_decide(inode, i, FATE_LOST);
  for (int i = 0; i < MACHINES_MAX; i++)
    free(inode->view[i].at);
  free(inode->durable.at);
  free(inode->committed.at);
  free(inode);
}

void disk_end(void)
{
  for (struct inode *inode = inodes, *next; inode != NULL; inode = next) {
    next = inode->next;
    inode_free(inode);
  }
  inodes = NULL;
  free(names);
  names = NULL;
  name_count = name_size = 0;
}

void descriptor_close(int fd)
{
  struct descriptor *descriptor = &descriptors[fd];
  if (descriptor->inode->guard == fd)
    descriptor->inode->guard = -1;
  /* A network file system's client writes its changes back when a file is closed. */
  if (descriptor->machine != CHECKER && !chaos_is_local(descriptor->machine) && inode_has_changes(descriptor->inode, descriptor->machine) &&
      world_chance(0.8))
    inode_sync(descriptor->inode, descriptor->machine);
  descriptor->inode = NULL;
}

void disk_process_died(int process)
{
  for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
    if (descriptors[fd].inode != NULL && descriptors[fd].process == process)
      descriptor_close(fd);
}

static void names_crash(enum fate fate)
{
  for (size_t i = 0; i < name_count; i++) {
    struct name *entry = &names[i];
    if (entry->now == entry->durable)
      continue;
    if (fate == FATE_KEPT || (fate == FATE_MIXED && world_chance(0.5)))
      entry->durable = entry->now;
    entry->now = entry->durable;
  }
}

static void fault_count(int machine)
{
  for (int i = 0; i < PROCESSES_MAX; i++)
    faults[i] += machine == processes[i].machine || machine == CHECKER;
}

int64_t disk_faults(int process)
{
  return faults[process];
}

bool disk_has(const char *name)
{
  const struct name *entry = name_find(name);
  return entry != NULL && entry->now != NULL;
}

void disk_scribble(const char *name)
{
  static const uint8_t some[100] = "a stranger was here";
  const struct name *entry = name_find(name);
  if (entry == NULL || entry->durable == NULL)
    return;
  fault_count(CHECKER);
  bytes_put(&entry->durable->durable, entry->durable->durable.size, some, (size_t)world_between(1, sizeof some));
  inode_show(entry->durable);
  trace_add(-1, -1, "a stranger writes to the end of %s", name);
}

void disk_check_removed(const char *name, int process, uint64_t action)
{
  const struct name *entry = name_find(name);
  if (entry != NULL && entry->removed_until_us > world.now_us && entry->remover == process && entry->remover_action == action)
    world_fail("worker %d takes its block for written, and %s was removed before it could know that it is safe", process, name);
}

/* Another process moves the file away, just while it is synced. */
void name_remove_for_a_while(const char *name)
{
  struct name *entry = name_find(name);
  const struct action *action = fiber_action();
  if (entry == NULL || action == NULL || action->kind != ACTION_APPEND || !chaos_strikes(CHAOS_REMOVED))
    return;
  fault_count(CHECKER);
  entry->removed_until_us = world.now_us + world_between(0, SECONDS);
  entry->remover = fiber_process()->index;
  entry->remover_action = action->number;
  trace_add(-1, -1, "%s is not there for %lld ms", name, (long long)((entry->removed_until_us - world.now_us) / MS));
}

void disk_machine_crashed(int machine)
{
  fault_count(machine);
  enum fate fate = (enum fate)world_between(FATE_KEPT, FATE_MIXED);
  for (struct inode *inode = inodes; inode != NULL; inode = inode->next) {
    inode_decide(inode, machine, fate);
    inode_show(inode);
    inode_check(inode, "after a machine crashed");
  }
  if (chaos_is_local(machine))
    names_crash(fate);
}

void disk_write_back(void)
{
  for (struct inode *inode = inodes; inode != NULL; inode = inode->next)
    for (int machine = 0; inode->changes != NULL && machine < chaos_plan.machines; machine++)
      if (inode_has_changes(inode, machine) && world_chance(0.5))
        inode_sync(inode, machine);
}

/* ---- for checks.c ---- */

const uint8_t *disk_durable(const char *name, size_t *size)
{
  const struct name *entry = name_find(name);
  if (entry == NULL || entry->durable == NULL)
    return NULL;
  *size = entry->durable->durable.size;
  return entry->durable->durable.at;
}

void disk_committed(const char *name, int64_t length)
{
  const struct name *entry = name_find(name);
  if (entry == NULL || entry->durable == NULL || entry->durable->durable.size < (size_t)length) {
    world_fail("%s: %lld bytes are committed that are not safe on the disk", name, (long long)length);
    return;
  }
  struct inode *inode = entry->durable;
  size_t from = (size_t)inode->committed_length;
  if ((size_t)length > from)
    bytes_put(&inode->committed, from, inode->durable.at + from, (size_t)length - from);
  inode->committed_length = length > inode->committed_length ? length : inode->committed_length;
}
