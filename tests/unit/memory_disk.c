#include "memory_disk.h"
#include "tests/disk_bytes.h"

#include <assert.h>
#include <stdlib.h>

enum { NAMES_MAX = 4096, DESCRIPTORS_MAX = 4096, SECTOR_BYTES = 512 };

/* Not yet synced: `size` bytes written at `offset`, or a cut to `offset`. */
struct change {
  struct change *next;
  bool cut;
  size_t offset, size;
  uint8_t bytes[];
};

struct inode {
  struct inode *next;
  struct bytes now, durable;
  struct change *changes, **changes_end; /* the changes that lead from `durable` to `now` */
  int guard;                             /* the descriptor that holds the guard; -1: none */
};

struct name {
  char *dir;
  char name[FILE_NAME_SIZE];
  struct inode *inode;
  bool now, durable; /* whether the name exists now; whether it would exist after a crash */
};

struct descriptor {
  struct inode *inode; /* NULL: closed */
  bool writable;
  int process;
};

struct memory_disk memory_disk;
static struct inode *inodes;
static struct name names[NAMES_MAX];
static size_t name_count;
static struct descriptor descriptors[DESCRIPTORS_MAX];

/* ---- bytes ---- */

static void change_apply(struct bytes *bytes, const struct change *change)
{
  if (change->cut)
    bytes_resize(bytes, change->offset);
  else
    bytes_put(bytes, change->offset, change->bytes, change->size);
}

/* ---- inodes and names ---- */

static struct inode *inode_new(void)
{
  struct inode *inode = calloc(1, sizeof *inode);
  assert(inode != NULL);
  inode->changes_end = &inode->changes;
  inode->guard = -1;
  inode->next = inodes;
  return inodes = inode;
}

static void inode_change(struct inode *inode, bool cut, size_t offset, const void *bytes, size_t size)
{
  struct change *change = malloc(sizeof *change + size);
  assert(change != NULL);
  *change = (struct change){.cut = cut, .offset = offset, .size = size};
  if (size > 0)
    memcpy(change->bytes, bytes, size);
  change_apply(&inode->now, change);
  *inode->changes_end = change;
  inode->changes_end = &change->next;
}

static void inode_forget_changes(struct inode *inode)
{
  for (struct change *change = inode->changes, *next; change != NULL; change = next) {
    next = change->next;
    free(change);
  }
  inode->changes = NULL;
  inode->changes_end = &inode->changes;
}

static void inode_sync(struct inode *inode)
{
  for (struct change *change = inode->changes; change != NULL; change = change->next)
    change_apply(&inode->durable, change);
  inode_forget_changes(inode);
}

static struct name *name_find(const char *dir, const char *name)
{
  for (size_t i = 0; i < name_count; i++)
    if (strcmp(names[i].dir, dir) == 0 && strcmp(names[i].name, name) == 0)
      return &names[i];
  return NULL;
}

static struct name *name_add(const char *dir, const char *name)
{
  struct name *entry = name_find(dir, name);
  if (entry == NULL) {
    assert(name_count < NAMES_MAX);
    entry = &names[name_count++];
    *entry = (struct name){.dir = strdup(dir)};
    snprintf(entry->name, sizeof entry->name, "%s", name);
  }
  entry->inode = inode_new();
  entry->now = true;
  entry->durable = false;
  return entry;
}

/* ---- calls for tests ---- */

uint64_t memory_disk_random(uint64_t *random)
{
  *random ^= *random >> 12;
  *random ^= *random << 25;
  *random ^= *random >> 27;
  return *random * 0x2545F4914F6CDD1DU >> 16;
}

void memory_disk_reset(void)
{
  for (struct inode *inode = inodes, *next; inode != NULL; inode = next) {
    next = inode->next;
    inode_forget_changes(inode);
    free(inode->now.at);
    free(inode->durable.at);
    free(inode);
  }
  for (size_t i = 0; i < name_count; i++)
    free(names[i].dir);
  inodes = NULL;
  name_count = 0;
  memset(descriptors, 0, sizeof descriptors);
  memory_disk = (struct memory_disk){.local = true, .free_bytes = (int64_t)1 << 50};
}

static bool survives(enum disk_fate fate, uint64_t *random)
{
  return fate == FATE_KEPT || (fate == FATE_MIXED && memory_disk_random(random) % 2 == 0);
}

static void change_meets_fate(struct bytes *bytes, const struct change *change, enum disk_fate fate, uint64_t *random)
{
  if (fate != FATE_MIXED || change->cut || memory_disk_random(random) % 2 == 0) {
    if (survives(fate, random))
      change_apply(bytes, change);
    return;
  }
  for (size_t at = 0, step; at < change->size; at += step) {
    step = SECTOR_BYTES - (change->offset + at) % SECTOR_BYTES;
    if (step > change->size - at)
      step = change->size - at;
    if (survives(fate, random))
      bytes_put(bytes, change->offset + at, change->bytes + at, step);
  }
}

void memory_disk_crash(enum disk_fate fate, uint64_t *random)
{
  for (struct inode *inode = inodes; inode != NULL; inode = inode->next) {
    for (struct change *change = inode->changes; change != NULL; change = change->next)
      change_meets_fate(&inode->durable, change, fate, random);
    inode_forget_changes(inode);
    bytes_resize(&inode->now, 0);
    bytes_put(&inode->now, 0, inode->durable.at, inode->durable.size);
    inode->guard = -1;
  }
  for (size_t i = 0; i < name_count; i++)
    if (names[i].now != names[i].durable)
      names[i].now = names[i].durable = survives(fate, random) == names[i].now;
  memset(descriptors, 0, sizeof descriptors);
}

static void descriptor_close(int fd)
{
  if (descriptors[fd].inode->guard == fd)
    descriptors[fd].inode->guard = -1;
  descriptors[fd].inode = NULL;
}

void memory_disk_kill(int process)
{
  for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
    if (descriptors[fd].inode != NULL && descriptors[fd].process == process)
      descriptor_close(fd);
}

int memory_disk_open_files(void)
{
  int count = 0;
  for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
    count += descriptors[fd].inode != NULL;
  return count;
}

uint8_t *memory_disk_bytes(const char *dir, const char *name, size_t *size)
{
  const struct name *entry = name_find(dir, name);
  if (entry == NULL || !entry->now)
    return NULL;
  *size = entry->inode->now.size;
  return entry->inode->now.at;
}

void memory_disk_put(const char *dir, const char *name, const void *bytes, size_t size)
{
  struct name *entry = name_add(dir, name);
  inode_change(entry->inode, false, 0, bytes, size);
  inode_sync(entry->inode);
  entry->durable = true;
}

void memory_disk_load(const char *dir, const char *name, const char *path)
{
  FILE *stream = fopen(path, "rb");
  assert(stream != NULL);
  fseek(stream, 0, SEEK_END);
  size_t size = (size_t)ftell(stream);
  rewind(stream);
  uint8_t *bytes = malloc(size + 1);
  assert(bytes != NULL && fread(bytes, 1, size, stream) == size);
  fclose(stream);
  memory_disk_put(dir, name, bytes, size);
  free(bytes);
}

void memory_disk_remove(const char *dir, const char *name)
{
  struct name *entry = name_find(dir, name);
  assert(entry != NULL);
  entry->now = entry->durable = false;
}

/* ---- storage/file.h ---- */

/* Counts the call; true: this is the call that must fail. */
static bool fails(enum disk_call call, const char *what, const char *name, struct error *error)
{
  memory_disk.calls[call]++;
  if (memory_disk.before != NULL)
    memory_disk.before(call);
  if (memory_disk.fail_in[call] == 0 || --memory_disk.fail_in[call] > 0)
    return false;
  error_set(error, "%s %s: as the test wants", what, name);
  return true;
}

/* NULL: closed by a crash of its machine or process. */
static struct inode *inode_of(const struct file *file, struct error *error)
{
  struct inode *inode = file->fd >= 0 ? descriptors[file->fd].inode : NULL;
  if (inode == NULL)
    error_set(error, "%s: Bad file descriptor", file->name);
  return inode;
}

static enum file_status descriptor_open(struct file *file, struct inode *inode, const char *name, bool writable)
{
  for (file->fd = 0; descriptors[file->fd].inode != NULL; file->fd++)
    assert(file->fd + 1 < DESCRIPTORS_MAX);
  descriptors[file->fd] = (struct descriptor){.inode = inode, .writable = writable, .process = memory_disk.process};
  snprintf(file->name, sizeof file->name, "%s", name);
  return FILE_OK;
}

enum file_status file_open(struct file *file, const char *dir, const char *name, enum file_mode mode, unsigned permissions,
                           struct error *error)
{
  (void)permissions;
  file->fd = -1;
  if (fails(mode == FILE_CREATE ? DISK_CREATE : DISK_OPEN, "opening", name, error))
    return FILE_FAILED;
  const struct name *entry = name_find(dir, name);
  bool exists = entry != NULL && entry->now;
  if (exists != (mode != FILE_CREATE)) {
    error_set(error, "opening %s/%s: %s", dir, name, exists ? "File exists" : "No such file or directory");
    return exists ? FILE_EXISTS : FILE_ABSENT;
  }
  return descriptor_open(file, mode == FILE_CREATE ? name_add(dir, name)->inode : entry->inode, name, mode != FILE_READ);
}

enum file_status file_close(struct file *file, struct error *error)
{
  if (inode_of(file, error) == NULL)
    return FILE_FAILED;
  descriptor_close(file->fd);
  file->fd = -1;
  return fails(DISK_CLOSE, "closing", file->name, error) ? FILE_FAILED : FILE_OK;
}

enum file_status file_read(struct file *file, int64_t offset, void *bytes, size_t size, size_t *got, struct error *error)
{
  *got = 0;
  if (fails(DISK_READ, "reading", file->name, error))
    return FILE_FAILED;
  const struct inode *inode = inode_of(file, error);
  if (inode == NULL)
    return FILE_FAILED;
  assert(offset >= 0);
  if ((size_t)offset >= inode->now.size)
    return FILE_OK;
  *got = inode->now.size - (size_t)offset < size ? inode->now.size - (size_t)offset : size;
  memcpy(bytes, inode->now.at + offset, *got);
  return FILE_OK;
}

enum file_status file_write(struct file *file, int64_t offset, const void *bytes, size_t size, struct error *error)
{
  struct inode *inode = inode_of(file, error);
  if (inode == NULL)
    return FILE_FAILED;
  assert(offset >= 0 && descriptors[file->fd].writable);
  size_t taken = size;
  if (fails(DISK_WRITE, "writing", file->name, error))
    taken = memory_disk.failed_write_bytes < size ? memory_disk.failed_write_bytes : size - 1;
  if ((int64_t)taken > memory_disk.free_bytes) {
    error_set(error, "writing %s: No space left on device", file->name);
    taken = (size_t)memory_disk.free_bytes;
  }
  memory_disk.free_bytes -= (int64_t)taken;
  if (taken > 0)
    inode_change(inode, false, (size_t)offset, bytes, taken);
  return taken == size ? FILE_OK : FILE_FAILED;
}

enum file_status file_sync(struct file *file, struct error *error)
{
  struct inode *inode = inode_of(file, error);
  if (inode == NULL || fails(DISK_SYNC, "syncing", file->name, error))
    return FILE_FAILED;
  inode_sync(inode);
  return FILE_OK;
}

enum file_status file_sync_new(struct file *file, const char *dir, struct error *error)
{
  struct inode *inode = inode_of(file, error);
  if (inode == NULL || fails(DISK_SYNC_NEW, "syncing", file->name, error))
    return FILE_FAILED;
  inode_sync(inode);
  for (size_t i = 0; i < name_count; i++)
    if (strcmp(names[i].dir, dir) == 0)
      names[i].durable = names[i].now;
  return FILE_OK;
}

enum file_status file_size(struct file *file, int64_t *size, struct error *error)
{
  const struct inode *inode = inode_of(file, error);
  if (inode == NULL || fails(DISK_SIZE, "looking at", file->name, error))
    return FILE_FAILED;
  *size = (int64_t)inode->now.size;
  return FILE_OK;
}

enum file_status file_in_place(struct file *file, const char *dir, int64_t size, struct error *error)
{
  const struct inode *inode = inode_of(file, error);
  const struct name *entry = name_find(dir, file->name);
  if (inode == NULL || fails(DISK_IN_PLACE, "looking at", file->name, error))
    return FILE_FAILED;
  if (entry != NULL && entry->now && entry->inode == inode && (int64_t)inode->now.size == size)
    return FILE_OK;
  error_set(error, "%s/%s: it was removed, replaced or changed while it was open", dir, file->name);
  return FILE_ABSENT;
}

enum file_status file_cut(struct file *file, int64_t length, struct error *error)
{
  struct inode *inode = inode_of(file, error);
  if (inode == NULL || fails(DISK_CUT, "cutting", file->name, error))
    return FILE_FAILED;
  assert(length >= 0 && descriptors[file->fd].writable);
  inode_change(inode, true, (size_t)length, NULL, 0);
  return FILE_OK;
}

enum file_status file_writable(const char *dir, const char *name, struct error *error)
{
  (void)dir;
  return fails(DISK_WRITABLE, "write access to d,", name, error) ? FILE_FAILED : FILE_OK;
}

enum file_status file_guard(struct file *file, struct error *error)
{
  struct inode *inode = inode_of(file, error);
  if (inode == NULL || fails(DISK_GUARD, "guarding", file->name, error))
    return FILE_FAILED;
  if (inode->guard >= 0 && inode->guard != file->fd) {
    error_set(error, "guarding %s: Resource temporarily unavailable", file->name);
    return FILE_BUSY;
  }
  inode->guard = file->fd;
  return FILE_OK;
}

enum file_status file_unlink(const char *dir, const char *name, struct error *error)
{
  if (fails(DISK_UNLINK, "removing", name, error))
    return FILE_FAILED;
  struct name *entry = name_find(dir, name);
  if (entry == NULL || !entry->now) {
    error_set(error, "removing %s/%s: No such file or directory", dir, name);
    return FILE_ABSENT;
  }
  entry->now = false;
  return FILE_OK;
}

enum file_status file_local(struct file *file, bool *local, struct error *error)
{
  if (inode_of(file, error) == NULL || fails(DISK_LOCAL, "looking at the file system of", file->name, error))
    return FILE_FAILED;
  *local = memory_disk.local;
  return FILE_OK;
}

enum file_status file_place(const char *dir, struct file_place *place, struct error *error)
{
  if (fails(DISK_PLACE, "looking at the file system of", dir, error))
    return FILE_FAILED;
  *place = (struct file_place){.local = memory_disk.local, .free_bytes = memory_disk.free_bytes};
  return FILE_OK;
}

enum file_status file_list(const char *dir, void (*each)(void *context, const char *name), void *context, struct error *error)
{
  if (fails(DISK_LIST, "reading the directory", dir, error))
    return FILE_FAILED;
  for (size_t i = 0; i < name_count; i++)
    if (names[i].now && strcmp(names[i].dir, dir) == 0)
      each(context, names[i].name);
  return FILE_OK;
}
