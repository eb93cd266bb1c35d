#include "tools/dump/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_stdin(const char *path)
{
  return strcmp(path, "-") == 0;
}

bool spool_wanted(const char *path)
{
  struct stat status;
  if (is_stdin(path))
    return true;
  return stat(path, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || S_ISCHR(status.st_mode));
}

static void on_alarm(int number)
{
  (void)number;
}

/* Opening a named pipe waits until another process opens it for writing; a signal ends the wait. */
static int pipe_open(const char *path, struct error *error)
{
  struct sigaction wake = {.sa_handler = on_alarm}, before;
  if (is_stdin(path))
    return STDIN_FILENO;
  sigemptyset(&wake.sa_mask);
  sigaction(SIGALRM, &wake, &before);
  alarm(SPOOL_WAIT_S);
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  int reason = errno;
  alarm(0);
  sigaction(SIGALRM, &before, NULL);
  if (fd < 0 && reason == EINTR)
    error_set(error, "opening %s: not a pawl file: a pipe that no program opened for writing within %d s", path, SPOOL_WAIT_S);
  else if (fd < 0)
    error_set(error, "opening %s: %s", path, strerror(reason));
  return fd;
}

/* A device may be endless and would fill the disk. A terminal has an end. */
static bool may_copy(int fd, const char *path, struct error *error)
{
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISCHR(status.st_mode) || isatty(fd))
    return true;
  error_set(error, "opening %s: not a pawl file: a device", is_stdin(path) ? "standard input" : path);
  return false;
}

static int spool_make(struct error *error)
{
  const char *folder = getenv("TMPDIR");
  char path[4096];
  snprintf(path, sizeof path, "%s/pawl-dump.XXXXXX", folder != NULL && folder[0] != 0 ? folder : "/tmp");
  int fd = mkostemp(path, O_CLOEXEC);
  if (fd < 0)
    error_set(error, "making a file for the data of a pipe, %s (TMPDIR chooses the directory): %s", path, strerror(errno));
  else
    unlink(path);
  return fd;
}

static bool write_all(int to, const char *bytes, size_t size)
{
  while (size > 0) {
    ssize_t count = write(to, bytes, size);
    if (count < 0 && errno != EINTR)
      return false;
    if (count > 0) {
      bytes += count;
      size -= (size_t)count;
    }
  }
  return true;
}

static bool copy(int from, int to, const char *path, struct error *error)
{
  static char part[256 * 1024];
  for (;;) {
    ssize_t got = read(from, part, sizeof part);
    if (got == 0)
      return true;
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0) {
      error_set(error, "reading %s: %s", is_stdin(path) ? "standard input" : path, strerror(errno));
      return false;
    }
    if (!write_all(to, part, (size_t)got)) {
      error_set(error, "copying %s to a file (TMPDIR chooses the directory): %s", is_stdin(path) ? "standard input" : path,
                strerror(errno));
      return false;
    }
  }
}

int spool_copy(const char *path, struct error *error)
{
  int from = pipe_open(path, error);
  if (from < 0)
    return -1;
  int to = spool_make(error);
  if (to >= 0 && !(may_copy(from, path, error) && copy(from, to, path, error))) {
    close(to);
    to = -1;
  }
  if (from != STDIN_FILENO)
    close(from);
  return to;
}
