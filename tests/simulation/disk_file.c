/* storage/file.h, as the writer and the reader call it. */
#include "disk_parts.h"
#include "fiber.h"
#include "plants.h"
#include "trace.h"
#include "world.h"

#include <assert.h>

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
