#include "lock/private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * The token is written before the bytes, and is durable before them: so no later writer with a lower token finds an older one. It is a
 * decimal number of twenty digits and a line feed, written at once: a crash leaves the old one or the new one, for a page is not torn below
 * 512 bytes; what is neither is refused.
 */

enum { TOKEN_BYTES = 21 };

static enum pawl_result failed(struct pawl_error *error, const char *doing, const char *path)
{
  return result_set(error, PAWL_UNKNOWN, "%s %.500s: %s", doing, path, strerror(errno));
}

/* Waits for the kernel's lock on it, which its close gives back. */
static int token_open(const char *path, struct pawl_error *error)
{
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) {
    (void)failed(error, "opening", path);
    return -1;
  }
  while (fcntl(fd, F_OFD_SETLKW, &whole) != 0)
    if (errno != EINTR) {
      (void)failed(error, "locking", path);
      close(fd);
      return -1;
    }
  return fd;
}

static enum pawl_result token_read(int fd, const char *path, int64_t *token, struct pawl_error *error)
{
  char text[TOKEN_BYTES + 1] = "", *end;
  ssize_t size = pread(fd, text, sizeof text, 0);
  *token = 0;
  if (size < 0)
    return failed(error, "reading", path);
  if (size == 0)
    return PAWL_OK;
  errno = 0;
  *token = strtoll(text, &end, 10);
  bool ok = size == TOKEN_BYTES && strspn(text, "0123456789") == TOKEN_BYTES - 1 && *end == '\n' && errno == 0;
  return ok ? PAWL_OK : result_set(error, PAWL_REFUSED, "%.500s holds no token, expected twenty digits and a line feed", path);
}

/* Of a file that was just made the name, too. */
static bool sync_name(const char *path)
{
  char *copy = strdup(path);
  int fd = copy != NULL ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  bool ok = fd >= 0 && fsync(fd) == 0;
  if (fd >= 0)
    close(fd);
  free(copy);
  return ok;
}

/* 0: none. */
static bool token_put(int fd, int64_t token)
{
  char text[TOKEN_BYTES + 1];
  snprintf(text, sizeof text, "%020" PRId64 "\n", token);
  return token == 0 ? ftruncate(fd, 0) == 0 : pwrite(fd, text, TOKEN_BYTES, 0) == TOKEN_BYTES;
}

static enum pawl_result token_write(int fd, const char *path, int64_t seen, int64_t token, struct pawl_error *error)
{
  if (token_put(fd, token) && fdatasync(fd) == 0 && (seen != 0 || sync_name(path)))
    return PAWL_OK;
  enum pawl_result result = failed(error, "writing", path);
  (void)token_put(fd, seen); /* else the next append finds it there, and takes it for synced */
  return result;
}

static enum pawl_result append(const char *path, const char *bytes, size_t size, struct pawl_error *error)
{
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  size_t done = 0;
  if (fd < 0)
    return failed(error, "opening", path);
  while (done < size) {
    ssize_t some = write(fd, bytes + done, size - done);
    if (some < 0 && errno == EINTR)
      continue;
    if (some < 0)
      break;
    done += (size_t)some;
  }
  bool ok = done == size && fdatasync(fd) == 0 && sync_name(path);
  enum pawl_result result = ok ? PAWL_OK : failed(error, "writing", path);
  if (close(fd) != 0 && ok)
    result = failed(error, "closing", path);
  return result;
}

enum pawl_result pawl_file_append(const char *path, int64_t token, const void *bytes, size_t size, struct pawl_error *error)
{
  struct flock none = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
  char beside[PATH_MAX];
  int64_t seen;
  if (path == NULL || token <= 0 || (bytes == NULL && size > 0) || snprintf(beside, sizeof beside, "%s.token", path) >= PATH_MAX)
    return result_set(error, PAWL_INVALID, "appending with a token: the token is %" PRId64 ", expected above 0; or no path, or no bytes",
                      token);
  int fd = token_open(beside, error);
  if (fd < 0)
    return PAWL_UNKNOWN;
  enum pawl_result result = token_read(fd, beside, &seen, error);
  if (result == PAWL_OK && token < seen)
    result =
        result_set(error, PAWL_FENCED, "appending to %.500s: token %" PRId64 " is below %" PRId64 ", which has written", path, token, seen);
  if (result == PAWL_OK && token > seen)
    result = token_write(fd, beside, seen, token, error);
  if (result == PAWL_OK)
    result = append(path, bytes, size, error);
  (void)fcntl(fd, F_OFD_SETLK, &none); /* a child of a fork may have a copy of the descriptor */
  close(fd);
  return result;
}
