#include "storage/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Sets "doing name: the system's message". The status tells apart the two causes that callers handle. */
static enum file_status failed(struct error *error, const char *doing, const char *name)
{
  int cause = errno;
  char text[128] = "";
  error_set(error, "%s %s: %s", doing, path_show(name).text, strerror_r(cause, text, sizeof text));
  return cause == ENOENT ? FILE_ABSENT : cause == EEXIST ? FILE_EXISTS : FILE_FAILED;
}

static void path_make(char *path, size_t size, const char *dir, const char *name)
{
  snprintf(path, size, "%s/%s", dir, name);
}

enum { PATH_SIZE = 4096 + FILE_NAME_SIZE };

enum file_status file_open(struct file *file, const char *dir, const char *name, enum file_mode mode, unsigned permissions,
                           struct error *error)
{
  char path[PATH_SIZE];
  struct stat status;
  int flags = mode == FILE_READ ? O_RDONLY : mode == FILE_WRITE ? O_RDWR : O_RDWR | O_CREAT | O_EXCL;
  flags |= strcmp(dir, FILE_DIR_OPEN) == 0 ? 0 : O_NOFOLLOW;
  path_make(path, sizeof path, dir, name);
  /* O_NONBLOCK: opening a pipe of this name must not hang; it has no effect on a regular file. */
  file->fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, permissions);
  if (file->fd < 0)
    return failed(error, mode == FILE_CREATE ? "creating" : "opening", path);
  snprintf(file->name, sizeof file->name, "%s", strcmp(dir, FILE_DIR_OPEN) == 0 ? "the pipe" : name);
  if (fstat(file->fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    error_set(error, "opening %s: not a pawl file: not a regular file", path_show(path).text);
    close(file->fd);
    return FILE_FAILED;
  }
  if (mode == FILE_CREATE && fchmod(file->fd, permissions) != 0) {
    enum file_status result = failed(error, "setting the mode of", path);
    close(file->fd);
    return result;
  }
  return FILE_OK;
}

enum file_status file_close(struct file *file, struct error *error)
{
  int result = close(file->fd);
  file->fd = -1;
  return result == 0 ? FILE_OK : failed(error, "closing", file->name);
}

enum file_status file_read(struct file *file, int64_t offset, void *bytes, size_t size, size_t *got, struct error *error)
{
  *got = 0;
  while (*got < size) {
    ssize_t count = pread(file->fd, (char *)bytes + *got, size - *got, offset + (int64_t)*got);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return failed(error, "reading", file->name);
    if (count == 0)
      break;
    *got += (size_t)count;
  }
  return FILE_OK;
}

enum file_status file_write(struct file *file, int64_t offset, const void *bytes, size_t size, struct error *error)
{
  ssize_t count = pwrite(file->fd, bytes, size, offset);
  if (count < 0)
    return failed(error, "writing", file->name);
  if ((size_t)count != size) {
    error_set(error, "writing %s: only %zd of %zu bytes were taken", file->name, count, size);
    return FILE_FAILED;
  }
  return FILE_OK;
}

enum file_status file_sync(struct file *file, struct error *error)
{
  return fdatasync(file->fd) == 0 ? FILE_OK : failed(error, "syncing", file->name);
}

enum file_status file_sync_new(struct file *file, const char *dir, struct error *error)
{
  if (fsync(file->fd) != 0)
    return failed(error, "syncing", file->name);
  int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return failed(error, "opening the directory", dir);
  enum file_status result = fsync(fd) == 0 ? FILE_OK : failed(error, "syncing the directory", dir);
  close(fd);
  return result;
}

enum file_status file_size(struct file *file, int64_t *size, struct error *error)
{
  struct stat status;
  if (fstat(file->fd, &status) != 0)
    return failed(error, "querying", file->name);
  *size = status.st_size;
  return FILE_OK;
}

enum file_status file_in_place(struct file *file, const char *dir, int64_t size, struct error *error)
{
  char path[PATH_SIZE];
  struct stat open_one, named_one;
  path_make(path, sizeof path, dir, file->name);
  if (fstat(file->fd, &open_one) != 0)
    return failed(error, "querying", path);
  if (lstat(path, &named_one) != 0)
    return failed(error, "looking for the file that was just written,", path);
  if (open_one.st_dev != named_one.st_dev || open_one.st_ino != named_one.st_ino) {
    error_set(error, "%s: another file was put in its place while it was open", path);
    return FILE_ABSENT;
  }
  if (open_one.st_size == size)
    return FILE_OK;
  error_set(error, "%s: another process changed it while it was open: it has %lld bytes, expected %lld", path, (long long)open_one.st_size,
            (long long)size);
  return FILE_ABSENT;
}

enum file_status file_cut(struct file *file, int64_t length, struct error *error)
{
  return ftruncate(file->fd, length) == 0 ? FILE_OK : failed(error, "cutting", file->name);
}

enum file_status file_writable(const char *dir, const char *name, struct error *error)
{
  char path[PATH_SIZE];
  path_make(path, sizeof path, dir, name);
  return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0 ? FILE_OK : failed(error, "write access to", path);
}

enum file_status file_guard(struct file *file, struct error *error)
{
  struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (fcntl(file->fd, F_OFD_SETLK, &all) == 0)
    return FILE_OK;
  bool busy = errno == EAGAIN || errno == EACCES;
  enum file_status result = failed(error, "guarding", file->name);
  return busy ? FILE_BUSY : result;
}

enum file_status file_unlink(const char *dir, const char *name, struct error *error)
{
  char path[PATH_SIZE];
  path_make(path, sizeof path, dir, name);
  return unlink(path) == 0 ? FILE_OK : failed(error, "removing", path);
}

/* statfs(2)'s f_type of the file systems that belong to one kernel at a time, and on which a file has only one guard. */
static bool file_system_local(unsigned long type)
{
  static const unsigned long local[] = {
      0xEF53,     /* ext2, ext3, ext4 */
      0x58465342, /* XFS */
      0x9123683E, /* btrfs */
      0x2FC12FC1, /* ZFS */
      0xF2F52010, /* F2FS */
      0x01021994, /* tmpfs */
  };
  for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
    if (local[i] == type)
      return true;
  return false;
}

enum file_status file_local(struct file *file, bool *local, struct error *error)
{
  struct statfs fs;
  if (fstatfs(file->fd, &fs) != 0)
    return failed(error, "querying the file system of", file->name);
  *local = file_system_local((unsigned long)(uint32_t)fs.f_type);
  return FILE_OK;
}

enum file_status file_place(const char *dir, struct file_place *place, struct error *error)
{
  struct statfs fs;
  struct statvfs space;
  if (statfs(dir, &fs) != 0 || statvfs(dir, &space) != 0)
    return failed(error, "querying the file system of", dir);
  place->local = file_system_local((unsigned long)(uint32_t)fs.f_type);
  /* A file system that does not report its size (ramfs, some on FUSE) does not count as full. */
  place->free_bytes = space.f_blocks == 0 ? INT64_MAX : (int64_t)(space.f_bavail * space.f_frsize);
  place->size_bytes = space.f_blocks == 0 ? INT64_MAX : (int64_t)(space.f_blocks * space.f_frsize);
  return FILE_OK;
}

enum file_status file_list(const char *dir, void (*each)(void *context, const char *name), void *context, struct error *error)
{
  DIR *stream = opendir(dir);
  if (stream == NULL)
    return failed(error, "reading the directory", dir);
  struct dirent *entry;
  while (errno = 0, (entry = readdir(stream)) != NULL)
    each(context, entry->d_name);
  enum file_status result = errno == 0 ? FILE_OK : failed(error, "reading the directory", dir);
  closedir(stream);
  return result;
}
