/*
 * disk: a file system (FUSE) that logs every change in order, for the power-cut test.
 *
 *   disk STORE LOG MOUNTPOINT SYNC_MS
 *
 * It shows the files of the directory STORE, which has no subdirectories. Each write, cut, creation, removal and sync is one entry of the
 * file LOG, written before the caller gets its answer. LOG.position is a file of 8 bytes, for mapping: the number of entries in LOG. A sync
 * takes SYNC_MS, as on a real disk, and its entry is written at the end of that time. Nothing is ever really synced: the replay decides
 * what a power cut leaves, from LOG and from a copy of STORE as it was at the start.
 *
 * One thread serves all requests: a write whose entry precedes that of a sync was answered before the sync began. An entry: four unsigned
 * integers of 64 bits (kind, file, offset, length), and the bytes. Integers are in host byte order.
 *
 *   kind         file           offset      length and bytes
 *   WRITE        its number     where       the data
 *   CUT          its number     new size    0
 *   SYNC         its number     0           0                 fsync or fdatasync
 *   CREATE       its number     0           the name          also for the files that are in STORE at the start
 *   REMOVE       its number     0           the name
 *   SYNC_NAMES   0              0           0                 fsync of the directory
 */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { WRITE = 1, CUT, SYNC, CREATE, REMOVE, SYNC_NAMES };
enum { FILES_MAX = 1000, NAME_SIZE = 256 };

static struct {
  int store; /* the directory */
  int log;
  _Atomic uint64_t *position;
  struct timespec sync_time;
  uint64_t last; /* the last number given to a file */
  struct {
    char name[NAME_SIZE];
    uint64_t number; /* 0: unused */
  } files[FILES_MAX];
} disk;

/* A log with a missing entry is useless, so the program ends. */
static void give_up(const char *what)
{
  perror(what);
  exit(1);
}

static void log_entry(enum kind kind, uint64_t file, uint64_t offset, const void *bytes, size_t length)
{
  uint64_t head[] = {kind, file, offset, length};
  struct iovec parts[] = {{head, sizeof head}, {(void *)bytes, length}};
  if (writev(disk.log, parts, 2) != (ssize_t)(sizeof head + length))
    give_up("disk: writing the log");
  atomic_fetch_add(disk.position, 1);
}

static uint64_t *number_of(const char *name)
{
  for (size_t i = 0; i < FILES_MAX; i++)
    if (disk.files[i].number != 0 && strcmp(disk.files[i].name, name) == 0)
      return &disk.files[i].number;
  return NULL;
}

static int enter(const char *name)
{
  size_t i = 0;
  while (i < FILES_MAX && disk.files[i].number != 0)
    i++;
  if (i == FILES_MAX || strlen(name) >= NAME_SIZE)
    return -ENOSPC;
  memcpy(disk.files[i].name, name, strlen(name) + 1);
  disk.files[i].number = ++disk.last;
  log_entry(CREATE, disk.last, 0, name, strlen(name));
  return 0;
}

/* An open file: its number in the log, and the file in STORE. */
static uint64_t handle_make(uint64_t number, int fd)
{
  return number << 32 | (uint32_t)fd;
}

static int fd_of(const struct fuse_file_info *info)
{
  return (int)(uint32_t)info->fh;
}

static uint64_t file_of(const struct fuse_file_info *info)
{
  return info->fh >> 32;
}

static int result_of(int result)
{
  return result < 0 ? -errno : result;
}

/* "/name" as STORE's "name", "/" as "." */
static const char *name_of(const char *path)
{
  return path[1] == 0 ? "." : path + 1;
}

static int disk_getattr(const char *path, struct stat *status, struct fuse_file_info *info)
{
  if (info != NULL)
    return result_of(fstat(fd_of(info), status));
  return result_of(fstatat(disk.store, name_of(path), status, AT_SYMLINK_NOFOLLOW));
}

static int disk_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset, struct fuse_file_info *info,
                        enum fuse_readdir_flags flags)
{
  (void)path, (void)offset, (void)info, (void)flags;
  for (size_t i = 0; i < FILES_MAX; i++)
    if (disk.files[i].number != 0)
      fill(buffer, disk.files[i].name, NULL, 0, 0);
  return 0;
}

static int disk_open(const char *path, struct fuse_file_info *info)
{
  int fd = openat(disk.store, name_of(path), (info->flags & O_ACCMODE) | O_CLOEXEC);
  uint64_t *number = number_of(name_of(path));
  if (fd < 0 || number == NULL)
    return fd < 0 ? -errno : -EIO;
  info->fh = handle_make(*number, fd);
  return 0;
}

static int disk_create(const char *path, mode_t mode, struct fuse_file_info *info)
{
  int fd = openat(disk.store, name_of(path), (info->flags & O_ACCMODE) | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0)
    return -errno;
  int result = enter(name_of(path));
  info->fh = handle_make(disk.last, fd);
  return result;
}

static int disk_release(const char *path, struct fuse_file_info *info)
{
  (void)path;
  close(fd_of(info));
  return 0;
}

static int disk_read(const char *path, char *bytes, size_t size, off_t offset, struct fuse_file_info *info)
{
  (void)path;
  return result_of((int)pread(fd_of(info), bytes, size, offset));
}

static int disk_write(const char *path, const char *bytes, size_t size, off_t offset, struct fuse_file_info *info)
{
  (void)path;
  ssize_t count = pwrite(fd_of(info), bytes, size, offset);
  if (count > 0)
    log_entry(WRITE, file_of(info), (uint64_t)offset, bytes, (size_t)count);
  return result_of((int)count);
}

static int disk_truncate(const char *path, off_t size, struct fuse_file_info *info)
{
  if (info == NULL)
    return -ENOSYS; /* only through an open file, as pawl does */
  (void)path;
  int result = ftruncate(fd_of(info), size);
  if (result == 0)
    log_entry(CUT, file_of(info), (uint64_t)size, NULL, 0);
  return result_of(result);
}

static int disk_unlink(const char *path)
{
  uint64_t *number = number_of(name_of(path));
  if (number == NULL || unlinkat(disk.store, name_of(path), 0) != 0)
    return number == NULL ? -ENOENT : -errno;
  log_entry(REMOVE, *number, 0, name_of(path), strlen(name_of(path)));
  *number = 0;
  return 0;
}

static int disk_fsync(const char *path, int data_only, struct fuse_file_info *info)
{
  (void)path, (void)data_only;
  nanosleep(&disk.sync_time, NULL);
  log_entry(SYNC, file_of(info), 0, NULL, 0);
  return 0;
}

static int disk_fsyncdir(const char *path, int data_only, struct fuse_file_info *info)
{
  (void)path, (void)data_only, (void)info;
  nanosleep(&disk.sync_time, NULL);
  log_entry(SYNC_NAMES, 0, 0, NULL, 0);
  return 0;
}

/* The replay does not use modes. */
static int disk_chmod(const char *path, mode_t mode, struct fuse_file_info *info)
{
  return result_of(info != NULL ? fchmod(fd_of(info), mode) : fchmodat(disk.store, name_of(path), mode, 0));
}

static int disk_statfs(const char *path, struct statvfs *space)
{
  (void)path;
  return result_of(fstatvfs(disk.store, space));
}

static void *disk_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
  (void)connection;
  config->hard_remove = 1; /* FUSE removes an open file and does not rename it instead */
  config->nullpath_ok = 1;
  return NULL;
}

static const struct fuse_operations operations = {
    .init = disk_init,
    .getattr = disk_getattr,
    .readdir = disk_readdir,
    .open = disk_open,
    .create = disk_create,
    .release = disk_release,
    .read = disk_read,
    .write = disk_write,
    .truncate = disk_truncate,
    .unlink = disk_unlink,
    .fsync = disk_fsync,
    .fsyncdir = disk_fsyncdir,
    .chmod = disk_chmod,
    .statfs = disk_statfs,
};

static void open_all(const char *store, const char *log)
{
  char path[4096];
  snprintf(path, sizeof path, "%s.position", log);
  disk.store = open(store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  disk.log = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (disk.store < 0 || disk.log < 0 || fd < 0 || ftruncate(fd, 8) != 0)
    give_up("disk: opening the store and the log");
  void *mapped = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED)
    give_up("disk: mapping the position");
  disk.position = mapped;
  DIR *stream = fdopendir(dup(disk.store));
  struct dirent *entry;
  while (stream != NULL && (entry = readdir(stream)) != NULL)
    if (entry->d_type == DT_REG && enter(entry->d_name) != 0)
      give_up("disk: too many files");
  log_entry(SYNC_NAMES, 0, 0, NULL, 0);
}

int main(int count, char **arguments)
{
  if (count != 5) {
    fprintf(stderr, "usage: disk STORE LOG MOUNTPOINT SYNC_MS\n");
    return 2;
  }
  long sync_ms = atol(arguments[4]);
  disk.sync_time = (struct timespec){.tv_sec = sync_ms / 1000, .tv_nsec = sync_ms % 1000 * 1000000};
  open_all(arguments[1], arguments[2]);
  char *words[] = {arguments[0], "-f", "-s", "-o", "fsname=pawl-powercut", arguments[3], NULL};
  return fuse_main(6, words, &operations, NULL);
}
