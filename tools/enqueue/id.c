#include "tools/enqueue/id.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { US_PER_S = 1000000, IDENTITY_BITS = 44, TICK_TEXT_BYTES = 17 /* 16 digits and a line feed, always */ };
#define TICK_MAX (INT64_C(9999999999999999)) /* 16 digits; the year 2286. Seconds wrap in 2106 */

/* ---- the file ---- */

static bool fail(struct error *error, const char *doing, const char *path)
{
  error_set(error, "%s %.400s: %s", doing, path, strerror(errno));
  return false;
}

static bool folder_make(const char *path)
{
  if (mkdir(path, 0700) == 0 || errno == EEXIST)
    return true;
  int reason = errno;
  bool exists = access(path, F_OK) == 0; /* for a directory that exists, mkdir may also return EACCES or EROFS */
  errno = reason;
  return exists;
}

/* Makes the missing directories on the path; the part after the last slash is the file. */
static bool folders_make(char *path)
{
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    bool made = folder_make(path);
    *slash = '/';
    if (!made)
      return false;
  }
  return true;
}

/* As the XDG Base Directory Specification has it: XDG_STATE_HOME does not count if it is empty or relative. */
static bool state_path(char *path, size_t size, struct error *error)
{
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  int length;
  if (state && *state == '/')
    length = snprintf(path, size, "%s/pawl/last-id", state);
  else if (home && *home == '/')
    length = snprintf(path, size, "%s/.local/state/pawl/last-id", home);
  else {
    error_set(error, "neither XDG_STATE_HOME nor HOME names a folder for the file last-id");
    return false;
  }
  if (length < (int)size)
    return true;
  error_set(error, "the path of the file last-id is too long");
  return false;
}

bool id_source_open_at(struct id_source *source, const char *path, struct error *error)
{
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
    random = (uint64_t)getpid() * UINT64_C(0x9e3779b97f4a7c15);
  *source = (struct id_source){.file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), .identity = random >> (64 - IDENTITY_BITS)};
  return source->file >= 0 || fail(error, "cannot open", path);
}

bool id_source_open(struct id_source *source, struct error *error)
{
  char path[PATH_MAX];
  *source = (struct id_source){.file = -1};
  bool named = state_path(path, sizeof path, error);
  if (named && !folders_make(path)) {
    fail(error, "cannot make the folder of", path);
    named = false;
  }
  if (named)
    return id_source_open_at(source, path, error);
  struct error ignored; /* it would only repeat that there is no file */
  return id_source_open_at(source, "", &ignored);
}

void id_source_close(struct id_source *source)
{
  if (source->file >= 0)
    close(source->file);
  source->file = -1;
}

static bool lock(int file)
{
  int result;
  do
    result = flock(file, LOCK_EX);
  while (result != 0 && errno == EINTR);
  return result == 0;
}

/* An empty file, or a file in another format, gives 0: then the clock decides. */
static bool tick_read(int file, int64_t *tick)
{
  char text[TICK_TEXT_BYTES + 1] = "";
  ssize_t length = pread(file, text, TICK_TEXT_BYTES, 0);
  *tick = 0;
  if (length < 0)
    return false;
  if (length == TICK_TEXT_BYTES && strspn(text, "0123456789") == TICK_TEXT_BYTES - 1)
    *tick = strtoll(text, NULL, 10);
  return true;
}

static bool tick_write(int file, int64_t tick)
{
  char text[TICK_TEXT_BYTES + 8];
  snprintf(text, sizeof text, "%016" PRId64 "\n", tick);
  errno = ENOSPC; /* the reason if the write is short */
  return pwrite(file, text, TICK_TEXT_BYTES, 0) == TICK_TEXT_BYTES;
}

static int64_t first_above(int64_t now_us, int64_t last)
{
  return now_us > last ? now_us : last + 1;
}

/* Reads, raises and writes the tick under the lock. */
static bool reserve_in_file(int file, int64_t *first, int64_t count)
{
  int64_t last;
  if (!lock(file))
    return false;
  bool done = tick_read(file, &last);
  if (done) {
    *first = first_above(*first, last);
    done = *first + count - 1 <= TICK_MAX && tick_write(file, *first + count - 1);
  }
  int reason = errno;
  flock(file, LOCK_UN);
  errno = reason;
  return done;
}

bool id_source_reserve(struct id_source *source, int64_t now_wall_us, size_t count, int64_t *first, struct error *error)
{
  bool done = true;
  *first = first_above(now_wall_us, source->last_tick);
  if (count == 0)
    return true;
  if (source->file >= 0 && !reserve_in_file(source->file, first, (int64_t)count)) {
    error_set(error, "cannot keep the last _id in the file last-id: %s", strerror(errno));
    id_source_close(source);
    done = false;
  }
  source->last_tick = *first + (int64_t)count - 1;
  return done;
}

void id_make(const struct id_source *source, int64_t tick, uint8_t id[static 12])
{
  uint64_t low = (uint64_t)(tick % US_PER_S) << IDENTITY_BITS | source->identity;
  uint32_t seconds = (uint32_t)(tick / US_PER_S);
  for (int i = 0; i < 4; i++)
    id[i] = (uint8_t)(seconds >> (24 - 8 * i));
  for (int i = 0; i < 8; i++)
    id[4 + i] = (uint8_t)(low >> (56 - 8 * i));
}
