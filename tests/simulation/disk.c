#include "disk.h"
#include "chaos.h"
#include "fiber.h"
#include "plants.h"
#include "process.h"
#include "trace.h"
#include "world.h"

#include <assert.h>
#include <stdlib.h>

enum { DESCRIPTORS_MAX = 4096, SECTOR_BYTES = 512, CHECKER = -1 };

struct bytes {
  uint8_t *at;
  size_t size, room;
};

struct change { /* not yet durable: bytes written, or a cut to `offset` */
  struct change *next;
  int machine;
  bool cut;
  size_t offset, size;
  uint8_t bytes[];
};

struct inode {
  struct inode *next;
  struct bytes durable, view[MACHINES_MAX]; /* the durable bytes; the bytes that each machine sees */
  struct change *changes;
  int guard;                /* the descriptor that holds the guard; -1: none */
  int64_t committed_length; /* according to the ledger */
  struct bytes committed;   /* the bytes when they were committed */
};

struct name {
  uint64_t hash;
  char name[FILE_NAME_SIZE];
  struct inode *now, *durable; /* NULL: does not exist */
  int creator;                 /* a machine; the others see the name from seen_us on */
  int64_t seen_us;
  int64_t removed_until_us; /* until then another process has moved the file away */
  int remover;              /* the process that was syncing the file, */
  uint64_t remover_action;  /* and the number of its action */
};

struct descriptor {
  struct inode *inode; /* NULL: closed */
  bool writable;
  bool failed; /* the kernel dropped data written on this machine: the next sync or close reports it (errseq) */
  int process, machine;
};

static struct inode *inodes;
static struct name *names;
static size_t name_count, name_size;
static struct descriptor descriptors[DESCRIPTORS_MAX];
static int descriptor_next;
static int64_t faults[PROCESSES_MAX];

/* ---- bytes ---- */

static void bytes_resize(struct bytes *bytes, size_t size)
{
  if (size > bytes->room) {
    bytes->room = size + size / 2;
    bytes->at = realloc(bytes->at, bytes->room);
    assert(bytes->at != NULL);
  }
  if (size > bytes->size)
    memset(bytes->at + bytes->size, 0, size - bytes->size);
  bytes->size = size;
}

static void bytes_put(struct bytes *bytes, size_t offset, const uint8_t *from, size_t size)
{
  if (size == 0)
    return;
  if (offset + size > bytes->size)
    bytes_resize(bytes, offset + size);
  memcpy(bytes->at + offset, from, size);
}

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

static struct inode *inode_new(void)
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

static void inode_change(struct inode *inode, int machine, bool cut, size_t offset, const void *bytes, size_t size)
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

static bool inode_has_changes(const struct inode *inode, int machine)
{
  for (const struct change *change = inode->changes; change != NULL; change = change->next)
    if (change->machine == machine)
      return true;
  return false;
}

static void inode_sync(struct inode *inode, int machine)
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
static void inode_lose(struct inode *inode, int machine)
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

static int machine_of_caller(void)
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

static struct name *name_find(const char *name)
{
  uint64_t hash = name_hash(name);
  for (size_t i = 0; i < name_count; i++)
    if (names[i].hash == hash && strcmp(names[i].name, name) == 0)
      return &names[i];
  return NULL;
}

static struct name *name_add(const char *name)
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
static void name_set(struct name *entry, struct inode *inode)
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

static void descriptor_close(int fd)
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
static void name_remove_for_a_while(const char *name)
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

/* ---- storage/file.h ---- */

/* Names the caller, and decides whether the call is made: not for a dead process, and not when the disk fails it. */
static bool enter(enum chaos fault, const char *what, const char *name, struct error *error)
{
  if (fiber_process() == NULL)
    return true;
  chaos_disk_point();
  bool fails = fiber_dead() || (fault != CHAOS_COUNT && chaos_strikes(fault));
  if (fails)
    error_set(error, "%s %s: Input/output error", what, name);
  faults[fiber_process()->index] += fails;
  return !fails;
}

static struct inode *name_seen(const struct name *entry)
{
  int machine = machine_of_caller();
  if (machine == CHECKER)
    return entry->durable;
  if (entry->removed_until_us > world.now_us)
    return NULL;
  return machine == entry->creator || entry->seen_us <= world.now_us ? entry->now : NULL;
}

static struct inode *inode_of(const struct file *file, struct error *error)
{
  struct inode *inode = file->fd >= 0 ? descriptors[file->fd].inode : NULL;
  if (inode == NULL || fiber_dead()) {
    error_set(error, "%s: Bad file descriptor", file->name);
    return NULL;
  }
  return inode;
}

static const struct bytes *bytes_seen(const struct file *file, const struct inode *inode)
{
  int machine = descriptors[file->fd].machine;
  return machine == CHECKER ? &inode->durable : &inode->view[machine];
}

static enum file_status descriptor_open(struct file *file, struct inode *inode, const char *name, bool writable)
{
  while (descriptors[descriptor_next].inode != NULL)
    descriptor_next = (descriptor_next + 1) % DESCRIPTORS_MAX;
  file->fd = descriptor_next;
  descriptor_next = (descriptor_next + 1) % DESCRIPTORS_MAX;
  descriptors[file->fd] = (struct descriptor){.inode = inode,
                                              .writable = writable,
                                              .process = fiber_process() != NULL ? fiber_process()->index : CHECKER,
                                              .machine = machine_of_caller()};
  snprintf(file->name, sizeof file->name, "%s", name);
  return FILE_OK;
}

static enum file_status file_create(struct file *file, const char *name, struct error *error)
{
  struct name *entry = name_find(name);
  if (entry != NULL && entry->now != NULL) {
    error_set(error, "creating %s: File exists", name);
    if (fiber_type() != NULL)
      fiber_type()->name_taken = true;
    return FILE_EXISTS;
  }
  entry = name_add(name);
  name_set(entry, inode_new());
  entry->creator = machine_of_caller();
  entry->seen_us = world.now_us + chaos_plan.name_lag_us;
  trace_add(fiber_process()->index, fiber_type()->type, "creates %s", name);
  return descriptor_open(file, entry->now, name, true);
}

enum file_status file_open(struct file *file, const char *dir, const char *name, enum file_mode mode, unsigned permissions,
                           struct error *error)
{
  (void)dir, (void)permissions;
  file->fd = -1;
  if (!enter(mode == FILE_CREATE ? CHAOS_MISC : CHAOS_COUNT, "opening", name, error))
    return FILE_FAILED;
  if (mode == FILE_CREATE)
    return file_create(file, name, error);
  const struct name *entry = name_find(name);
  struct inode *inode = entry == NULL ? NULL : name_seen(entry);
  if (inode == NULL) {
    if (fiber_process() != NULL && entry != NULL)
      faults[fiber_process()->index]++; /* this machine sees the file late, or another worker has just removed it */
    error_set(error, "opening %s: No such file or directory", name);
    return FILE_ABSENT;
  }
  return descriptor_open(file, inode, name, mode != FILE_READ);
}

enum file_status file_close(struct file *file, struct error *error)
{
  bool fails = !enter(CHAOS_CLOSE, "closing", file->name, error);
  struct inode *inode = inode_of(file, error);
  if (inode == NULL)
    return FILE_FAILED;
  struct descriptor *descriptor = &descriptors[file->fd];
  if (!chaos_is_local(descriptor->machine) && descriptor->writable && fails && inode_has_changes(inode, descriptor->machine))
    inode_lose(inode, descriptor->machine);
  fails = (fails || descriptor->failed) && descriptor->writable;
  if (fails)
    error_set(error, "closing %s: Input/output error", file->name);
  descriptor_close(file->fd);
  file->fd = -1;
  return fails ? FILE_FAILED : FILE_OK;
}

enum file_status file_read(struct file *file, int64_t offset, void *bytes, size_t size, size_t *got, struct error *error)
{
  *got = 0;
  if (!enter(CHAOS_COUNT, "reading", file->name, error))
    return FILE_FAILED;
  const struct inode *inode = inode_of(file, error);
  if (inode == NULL)
    return FILE_FAILED;
  const struct bytes *seen = bytes_seen(file, inode);
  assert(offset >= 0);
  if ((size_t)offset >= seen->size)
    return FILE_OK;
  *got = seen->size - (size_t)offset < size ? seen->size - (size_t)offset : size;
  memcpy(bytes, seen->at + offset, *got);
  return FILE_OK;
}

enum file_status file_write(struct file *file, int64_t offset, const void *bytes, size_t size, struct error *error)
{
  size_t taken = size;
  plants_write_begins();
  chaos_write_point();
  bool fails = !enter(CHAOS_WRITE, "writing", file->name, error);
  struct inode *inode = inode_of(file, error);
  if (inode == NULL)
    return FILE_FAILED;
  assert(offset >= 0 && descriptors[file->fd].writable);
  if (fails || (chaos_disk_full() && world_chance(0.3))) {
    error_set(error, "writing %s: No space left on device", file->name);
    taken = (size_t)world_between(0, (int64_t)size - 1);
    faults[fiber_process()->index]++;
  }
  if (taken > 0 && offset < inode->committed_length)
    world_fail("worker %d writes to %s at offset %lld, and %lld bytes are committed", fiber_process()->index, file->name, (long long)offset,
               (long long)inode->committed_length);
  if (taken > 0)
    inode_change(inode, descriptors[file->fd].machine, false, (size_t)offset, bytes, taken);
  return taken == size ? FILE_OK : FILE_FAILED;
}

static enum file_status sync_inode(struct file *file, struct error *error)
{
  bool fails = !enter(CHAOS_SYNC, "syncing", file->name, error);
  struct inode *inode = inode_of(file, error);
  if (inode == NULL)
    return FILE_FAILED;
  struct descriptor *descriptor = &descriptors[file->fd];
  if (fails)
    inode_lose(inode, descriptor->machine);
  fails = fails || descriptor->failed;
  descriptor->failed = false;
  if (fails)
    error_set(error, "syncing %s: Input/output error", file->name);
  else if (!plants_skips_sync())
    inode_sync(inode, descriptors[file->fd].machine);
  name_remove_for_a_while(file->name);
  return fails ? FILE_FAILED : FILE_OK;
}

enum file_status file_sync(struct file *file, struct error *error)
{
  return sync_inode(file, error);
}

enum file_status file_sync_new(struct file *file, const char *dir, struct error *error)
{
  enum file_status status = sync_inode(file, error);
  if (status != FILE_OK || !enter(CHAOS_SYNC, "syncing the directory", dir, error))
    return FILE_FAILED;
  for (size_t i = 0; i < name_count; i++)
    names[i].durable = names[i].now;
  return FILE_OK;
}

enum file_status file_size(struct file *file, int64_t *size, struct error *error)
{
  bool fails = !enter(CHAOS_MISC, "querying", file->name, error);
  const struct inode *inode = inode_of(file, error);
  if (fails || inode == NULL)
    return FILE_FAILED;
  *size = plants_size(file->name, (int64_t)bytes_seen(file, inode)->size);
  return FILE_OK;
}

enum file_status file_in_place(struct file *file, const char *dir, int64_t size, struct error *error)
{
  bool fails = !enter(CHAOS_MISC, "querying", file->name, error);
  const struct inode *inode = inode_of(file, error);
  const struct name *entry = name_find(file->name);
  if (fails || inode == NULL)
    return FILE_FAILED;
  bool there = entry != NULL && entry->now == inode && entry->removed_until_us <= world.now_us;
  if ((there && (int64_t)bytes_seen(file, inode)->size == size) || plants_skips_look())
    return FILE_OK;
  error_set(error, "%s/%s: it was removed, replaced or changed while it was open", dir, file->name);
  return FILE_ABSENT;
}

enum file_status file_cut(struct file *file, int64_t length, struct error *error)
{
  bool fails = !enter(CHAOS_MISC, "cutting", file->name, error);
  struct inode *inode = inode_of(file, error);
  if (fails || inode == NULL)
    return FILE_FAILED;
  assert(length >= 0 && descriptors[file->fd].writable);
  if (length < inode->committed_length)
    world_fail("worker %d cuts %s to %lld bytes, and %lld are committed", fiber_process()->index, file->name, (long long)length,
               (long long)inode->committed_length);
  inode_change(inode, descriptors[file->fd].machine, true, (size_t)length, NULL, 0);
  return FILE_OK;
}

enum file_status file_writable(const char *dir, const char *name, struct error *error)
{
  (void)dir, (void)name, (void)error;
  return FILE_OK;
}

enum file_status file_guard(struct file *file, struct error *error)
{
  bool fails = !enter(CHAOS_MISC, "guarding", file->name, error);
  struct inode *inode = inode_of(file, error);
  if (fails || inode == NULL)
    return FILE_FAILED;
  if (inode->guard >= 0 && inode->guard != file->fd && plants_ignores_guards())
    return FILE_OK;
  if (inode->guard >= 0 && inode->guard != file->fd) {
    error_set(error, "guarding %s: Resource temporarily unavailable", file->name);
    fiber_process()->busy_epochs[fiber_type()->type] = fiber_type()->epoch;
    return FILE_BUSY;
  }
  inode->guard = file->fd;
  return FILE_OK;
}

enum file_status file_unlink(const char *dir, const char *name, struct error *error)
{
  (void)dir;
  /* A worker calls this rarely, so the call fails often. */
  if (!enter(CHAOS_MISC, "removing", name, error) || (world.faults && chaos_plan.rate[CHAOS_MISC] > 0 && world_chance(0.6)))
    return FILE_FAILED;
  struct name *entry = name_find(name);
  if (entry == NULL || entry->now == NULL || entry->removed_until_us > world.now_us) {
    error_set(error, "removing %s: No such file or directory", name);
    return FILE_ABSENT;
  }
  if (entry->now->committed_length > 0)
    world_fail("worker %d removes %s, which the ledger names", fiber_process()->index, name);
  name_set(entry, NULL);
  trace_add(fiber_process()->index, fiber_type()->type, "removes %s", name);
  return FILE_OK;
}

enum file_status file_local(struct file *file, bool *local, struct error *error)
{
  bool fails = !enter(CHAOS_MISC, "querying the file system of", file->name, error);
  if (fails || inode_of(file, error) == NULL)
    return FILE_FAILED;
  *local = chaos_is_local(machine_of_caller()) || plants_ignores_guards();
  return FILE_OK;
}

enum file_status file_place(const char *dir, struct file_place *place, struct error *error)
{
  if (!enter(CHAOS_MISC, "querying the file system of", dir, error))
    return FILE_FAILED;
  *place = (struct file_place){.local = chaos_is_local(machine_of_caller()),
                               .free_bytes = chaos_disk_full() ? world_between(0, 80 * 1024) : (int64_t)1 << 40};
  return FILE_OK;
}

enum file_status file_list(const char *dir, void (*each)(void *context, const char *name), void *context, struct error *error)
{
  if (!enter(CHAOS_COUNT, "reading the directory", dir, error))
    return FILE_FAILED;
  for (size_t i = 0; i < name_count; i++) {
    if (name_seen(&names[i]) != NULL) {
      char name[FILE_NAME_SIZE];
      snprintf(name, sizeof name, "%s", names[i].name); /* `each` may open files, and so let other processes add names */
      each(context, name);
    }
  }
  return FILE_OK;
}
