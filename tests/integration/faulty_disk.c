/*
 * A disk that fails on demand, for the tests: preloaded into a worker (LD_PRELOAD), it stands in front of the calls by which
 * storage/file.c reaches the disk, and only for files of PAWL_TEST_DISK_DIR.
 *
 * PAWL_TEST_DISK_RULES names a file that is read again before each such call. A line is `CALL NAME NTH WHAT`:
 *   CALL  open, pread, pwrite, fdatasync, fsync, ftruncate, close
 *   NAME  a pattern for the file's name without folder; * for any (the directory itself is `.`)
 *   NTH   the how many-th matching call since the worker began to see the line; 0: each
 *   WHAT  an errno as a number: the call is not made, and fails (close: it is made, and fails)
 *         short: half of it is written, and told
 *         late:  it is made, and fails all the same with EIO
 *         stop:  the process stops itself (SIGSTOP) before it
 *         hang:  it waits as long as the line is there, and is made then; NTH is 0
 *         skip:  fdatasync and fsync: it is not made, and succeeds
 *         later: fdatasync and fsync: it succeeds at once, and is made 20 ms later
 * PAWL_TEST_DISK_LOG names a file to which each call is added: `CALL NAME ARGUMENTS = RESULT`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { RULES_MAX = 16, NOT_MATCHED = -1, SHORT = 10001, LATE, STOP, SKIP, LATER, HANG };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  char line[200];
  int seen;
} rules[RULES_MAX];

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name)
{
  return dlsym(RTLD_NEXT, name);
}

/* The name in the watched directory, `.` for the directory; false: another file. */
static int watched(const char *path, char name[256])
{
  const char *dir = getenv("PAWL_TEST_DISK_DIR");
  size_t length = dir != NULL ? strlen(dir) : 0;
  if (length == 0 || strncmp(path, dir, length) != 0 || (path[length] != '/' && path[length] != 0))
    return 0;
  snprintf(name, 256, "%s", path[length] == 0 ? "." : path + length + 1);
  return 1;
}

static int watched_fd(int fd, char name[256])
{
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0)
    return 0;
  path[length] = 0;
  char *deleted = strstr(path, " (deleted)");
  if (deleted != NULL)
    *deleted = 0;
  return watched(path, name);
}

static int what_of(const char *text)
{
  static const struct {
    const char *text;
    int what;
  } words[] = {{"short", SHORT}, {"late", LATE}, {"stop", STOP}, {"skip", SKIP}, {"later", LATER}, {"hang", HANG}};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strcmp(text, words[i].text) == 0)
      return words[i].what;
  return atoi(text);
}

static int rule_now(const char *call, const char *name)
{
  const char *path = getenv("PAWL_TEST_DISK_RULES");
  FILE *file = path != NULL ? fopen(path, "re") : NULL;
  int found = NOT_MATCHED;
  char line[200];
  if (file == NULL)
    return NOT_MATCHED;
  pthread_mutex_lock(&lock);
  while (fgets(line, sizeof line, file) != NULL) {
    char rule_call[32], rule_name[128], what[32];
    int nth = 0, slot = 0;
    if (sscanf(line, "%31s %127s %d %31s", rule_call, rule_name, &nth, what) != 4 || strcmp(rule_call, call) != 0 ||
        fnmatch(rule_name, name, 0) != 0)
      continue;
    while (slot < RULES_MAX - 1 && rules[slot].line[0] != 0 && strcmp(rules[slot].line, line) != 0)
      slot++;
    snprintf(rules[slot].line, sizeof rules[slot].line, "%s", line);
    if (++rules[slot].seen == nth || nth == 0)
      found = what_of(what);
  }
  pthread_mutex_unlock(&lock);
  fclose(file);
  return found;
}

/* NOT_MATCHED, or what is to happen. */
static int rule_for(const char *call, const char *name)
{
  int what;
  while ((what = rule_now(call, name)) == HANG)
    usleep(100000); /* the fault itself */
  return what;
}

static void tell(const char *format, ...)
{
  const char *path = getenv("PAWL_TEST_DISK_LOG");
  char line[600];
  int kept = errno;
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  int fd = path != NULL ? (int)REAL(open)(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (fd >= 0) {
    ssize_t written = write(fd, line, (size_t)length);
    (void)written;
    REAL(close)(fd);
  }
  errno = kept;
}

/* Before a call: 1 when it is to fail at once, errno set. */
static int fails(int what)
{
  if (what == STOP)
    pthread_kill(pthread_self(), SIGSTOP); /* to this thread: it must not get any further */
  if (what <= 0 || what >= SHORT)
    return 0;
  errno = what;
  return 1;
}

static int late(int what, int result)
{
  if (what != LATE || result != 0)
    return result;
  errno = EIO;
  return -1;
}

int open(const char *path, int flags, ...)
{
  char name[256];
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (!watched(path, name))
    return REAL(open)(path, flags, mode);
  int result = fails(rule_for("open", name)) ? -1 : REAL(open)(path, flags, mode);
  tell("open %s flags=%#x append=%d create=%d mode=%o = %d\n", name, flags, (flags & O_APPEND) != 0, (flags & O_CREAT) != 0, mode, result);
  return result;
}

int open64(const char *path, int flags, ...)
{
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open(path, flags, mode);
}

ssize_t pread(int fd, void *bytes, size_t size, off_t offset)
{
  char name[256];
  if (watched_fd(fd, name) && fails(rule_for("pread", name)))
    return -1;
  return REAL(pread)(fd, bytes, size, offset);
}

ssize_t pread64(int fd, void *bytes, size_t size, off_t offset)
{
  return pread(fd, bytes, size, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
  char name[256];
  if (!watched_fd(fd, name))
    return REAL(pwrite)(fd, bytes, size, offset);
  int what = rule_for("pwrite", name);
  ssize_t result = fails(what) ? -1 : REAL(pwrite)(fd, bytes, what == SHORT ? size / 2 : size, offset);
  if (what == LATE && result >= 0)
    result = late(what, 0);
  tell("pwrite %s fd=%d offset=%jd size=%zu = %zd\n", name, fd, (intmax_t)offset, size, result);
  return result;
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t offset)
{
  return pwrite(fd, bytes, size, offset);
}

static void *sync_later(void *argument)
{
  int fd = (int)(intptr_t)argument;
  usleep(20000); /* the fault itself: the sync comes this much later than it was promised */
  REAL(fsync)(fd);
  REAL(close)(fd);
  return NULL;
}

static int promise_sync(int fd)
{
  pthread_t thread;
  int result = pthread_create(&thread, NULL, sync_later, (void *)(intptr_t)dup(fd));
  return result == 0 ? pthread_detach(thread) : -1;
}

static int sync_as_told(int what, int fd, int (*sync)(int))
{
  return fails(what) ? -1 : what == SKIP ? 0 : what == LATER ? promise_sync(fd) : late(what, sync(fd));
}

static int synced(const char *call, int fd, int (*sync)(int))
{
  char name[256];
  if (!watched_fd(fd, name))
    return sync(fd);
  int what = rule_for(call, name), result = sync_as_told(what, fd, sync);
  tell("%s %s fd=%d = %d\n", call, name, fd, result);
  return result;
}

int fdatasync(int fd)
{
  return synced("fdatasync", fd, REAL(fdatasync));
}

int fsync(int fd)
{
  return synced("fsync", fd, REAL(fsync));
}

int ftruncate(int fd, off_t length)
{
  char name[256];
  if (!watched_fd(fd, name))
    return REAL(ftruncate)(fd, length);
  int what = rule_for("ftruncate", name), result = fails(what) ? -1 : late(what, REAL(ftruncate)(fd, length));
  tell("ftruncate %s fd=%d length=%jd = %d\n", name, fd, (intmax_t)length, result);
  return result;
}

int ftruncate64(int fd, off_t length)
{
  return ftruncate(fd, length);
}

int close(int fd)
{
  char name[256];
  if (!watched_fd(fd, name))
    return REAL(close)(fd);
  /* Only writers' files: a reader's close has nothing to tell. */
  int flags = fcntl(fd, F_GETFL);
  int what = (flags & O_ACCMODE) == O_RDWR ? rule_for("close", name) : NOT_MATCHED;
  int failed = fails(what), cause = errno, result = REAL(close)(fd);
  if (failed) {
    errno = cause;
    result = -1;
  }
  if ((flags & O_ACCMODE) == O_RDWR)
    tell("close %s fd=%d = %d\n", name, fd, result);
  return result;
}
