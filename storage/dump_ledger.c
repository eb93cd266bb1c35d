#include "storage/dump_ledger.h"

#include <bson/bson.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { ANSWER_BYTES_MAX = 256 * 1024 };

/* ---- the answer ---- */

static bool get_int64(const bson_t *from, const char *name, int64_t *value)
{
  bson_iter_t at;
  if (!bson_iter_init_find(&at, from, name) || !BSON_ITER_HOLDS_INT(&at))
    return false;
  *value = bson_iter_as_int64(&at);
  return *value >= 0;
}

static const char *get_text(const bson_t *from, const char *name)
{
  bson_iter_t at;
  return bson_iter_init_find(&at, from, name) && BSON_ITER_HOLDS_UTF8(&at) ? bson_iter_utf8(&at, NULL) : NULL;
}

static bool hex_decode(const char *hex, uint8_t *bytes, size_t size)
{
  if (hex == NULL || strlen(hex) != 2 * size || strspn(hex, "0123456789abcdefABCDEF") != 2 * size)
    return false;
  for (size_t i = 0; i < size; i++) {
    char two[3] = {hex[2 * i], hex[2 * i + 1], 0};
    bytes[i] = (uint8_t)strtoul(two, NULL, 16);
  }
  return true;
}

static bool end_fill(const bson_t *line, struct committed *end)
{
  uint8_t link[8];
  const char *file = get_text(line, "file");
  memset(end, 0, sizeof *end);
  if (file == NULL || file[0] == 0)
    return true;
  if (strlen(file) >= sizeof end->file || strchr(file, '/') != NULL || !hex_decode(get_text(line, "uuid"), end->uuid, sizeof end->uuid) ||
      !hex_decode(get_text(line, "link"), link, sizeof link))
    return false;
  snprintf(end->file, sizeof end->file, "%s", file);
  for (size_t i = 0; i < sizeof link; i++)
    end->link = end->link << 8 | link[i];
  return get_int64(line, "length", &end->length) && get_int64(line, "tail", &end->tail) && get_int64(line, "seq", &end->seq) &&
         get_int64(line, "items", &end->items);
}

bool ledger_parse(const char *line, size_t bytes, const char *type, struct ledger_answer *answer, struct error *error)
{
  bson_error_t cause;
  bson_t *parsed = bson_new_from_json((const uint8_t *)line, (ssize_t)bytes, &cause);
  if (parsed == NULL) {
    error_set(error, "pawl-status answered for type %s what is no JSON: %s", type, cause.message);
    return false;
  }
  const char *answered = get_text(parsed, "type");
  bool filled =
      answered != NULL && strcmp(answered, type) == 0 && get_int64(parsed, "epoch", &answer->epoch) && end_fill(parsed, &answer->end);
  if (!filled)
    error_set(error,
              "pawl-status answered for type %s without saying epoch, file, uuid, length, tail, link, seq and items as pawl-dump expects: "
              "are both of one version?",
              type);
  bson_destroy(parsed);
  return filled;
}

/* ---- the program ---- */

/* Beside this program, in the build tree, or (false) wherever the PATH says. */
static bool status_find(char *path, size_t size)
{
  static const char *const places[] = {"pawl-status", "../worker/pawl-status"};
  char self[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  for (size_t i = 0; length > 0 && i < sizeof places / sizeof *places; i++) {
    self[length] = 0;
    char *slash = strrchr(self, '/');
    int written = slash == NULL ? -1 : snprintf(path, size, "%.*s/%s", (int)(slash - self), self, places[i]);
    if (written > 0 && (size_t)written < size && access(path, X_OK) == 0)
      return true;
  }
  snprintf(path, size, "pawl-status");
  return false;
}

/* Our environment without PAWL_*: those are our options, already part of uri and db. free it, and [0] (and [1]) before. */
static char **environment_make(const char *uri, const char *db)
{
  size_t count = 0, kept = 0;
  while (environ[count] != NULL)
    count++;
  char **made = calloc(count + 3, sizeof *made);
  if (made == NULL)
    return NULL;
  if (asprintf(&made[kept++], "PAWL_URI=%s", uri) < 0 || asprintf(&made[kept++], "PAWL_DB=%s", db == NULL ? "" : db) < 0) {
    free(made);
    return NULL;
  }
  for (size_t i = 0; i < count; i++)
    if (strncmp(environ[i], "PAWL_", 5) != 0)
      made[kept++] = environ[i];
  return made;
}

static void environment_free(char **made)
{
  if (made != NULL) {
    free(made[0]);
    free(made[1]);
  }
  free(made);
}

/* Starts it with its stdout going into `out`. 0, or an errno. */
static int status_spawn(const char *path, bool exact, const char *type, char **environment, int out, pid_t *child)
{
  char program[] = "pawl-status", json[] = "--json", type_flag[] = "--type", name[TYPE_BYTES_MAX + 1];
  snprintf(name, sizeof name, "%s", type);
  char *arguments[] = {program, json, type_flag, name, NULL};
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t defaults, none;
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  int failed = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  if (failed == 0)
    failed = posix_spawnattr_setsigdefault(&attributes, &defaults);
  if (failed == 0)
    failed = posix_spawnattr_setsigmask(&attributes, &none);
  if (failed == 0)
    failed = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  if (failed == 0)
    failed = exact ? posix_spawn(child, path, &actions, &attributes, arguments, environment)
                   : posix_spawnp(child, path, &actions, &attributes, arguments, environment);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return failed;
}

/* All that it prints, at most so much. */
static size_t answer_read(int from, char *answer, size_t size)
{
  size_t length = 0;
  for (;;) {
    char dropped[4096];
    bool full = length == size;
    ssize_t got = read(from, full ? dropped : answer + length, full ? sizeof dropped : size - length);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return length;
    if (!full)
      length += (size_t)got;
  }
}

static bool status_wait(pid_t child, struct error *error)
{
  int result = 0;
  while (waitpid(child, &result, 0) < 0)
    if (errno != EINTR) {
      error_set(error, "waiting for pawl-status: %s", strerror(errno));
      return false;
    }
  if (WIFEXITED(result) && WEXITSTATUS(result) == 0)
    return true;
  if (WIFEXITED(result) && WEXITSTATUS(result) == 127)
    error_set(error, "pawl-status could not be started: --uri needs it, beside pawl-dump or on the PATH");
  else if (WIFEXITED(result))
    error_set(error, "pawl-status, asked for the ledger, ended with exit code %d", WEXITSTATUS(result));
  else
    error_set(error, "pawl-status, asked for the ledger, was ended by signal %d", WTERMSIG(result));
  return false;
}

/* What it says of a ledger that it cannot read tells more than its exit code. */
static void problem_take(const char *answer, size_t length, struct error *error)
{
  const char *end = memchr(answer, '\n', length);
  bson_t *parsed = end != NULL ? bson_new_from_json((const uint8_t *)answer, end - answer, NULL) : NULL;
  const char *problem = parsed != NULL ? get_text(parsed, "problem") : NULL;
  if (problem != NULL)
    error_set(error, "%s", problem);
  if (parsed != NULL)
    bson_destroy(parsed);
}

static size_t status_run(const char *uri, const char *db, const char *type, char *answer, size_t size, struct error *error)
{
  char path[PATH_MAX];
  int ends[2];
  pid_t child = 0;
  size_t length = 0;
  if (pipe2(ends, O_CLOEXEC) != 0) {
    error_set(error, "a pipe for pawl-status: %s", strerror(errno));
    return 0;
  }
  char **environment = environment_make(uri, db);
  bool exact = status_find(path, sizeof path);
  int failed = environment == NULL ? ENOMEM : status_spawn(path, exact, type, environment, ends[1], &child);
  close(ends[1]);
  if (failed == 0) {
    length = answer_read(ends[0], answer, size);
    close(ends[0]);
    bool answered = status_wait(child, error);
    if (!answered)
      problem_take(answer, length, error);
    length = answered ? length : 0;
  } else {
    close(ends[0]);
    error_set(error, "--uri needs the program pawl-status, beside pawl-dump or on the PATH: %s", strerror(failed));
  }
  environment_free(environment);
  return length;
}

bool ledger_ask(const char *uri, const char *db, const char *type, struct ledger_answer *answer, struct error *error)
{
  bool known = false;
  char *said = malloc(ANSWER_BYTES_MAX);
  if (said == NULL) {
    error_set(error, "no memory to ask the ledger");
    return false;
  }
  error_set(error, "pawl-status said nothing about type %s", type);
  size_t length = status_run(uri, db, type, said, ANSWER_BYTES_MAX, error);
  char *line_end = length > 0 ? memchr(said, '\n', length) : NULL;
  if (length > 0)
    known = ledger_parse(said, line_end != NULL ? (size_t)(line_end - said) : length, type, answer, error);
  free(said);
  return known;
}
