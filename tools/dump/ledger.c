#include "tools/dump/ledger.h"

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

enum { ANSWER_BYTES_MAX = 64 * 1024 * 1024 }; /* about 100,000 types */

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
         get_int64(line, "messages", &end->items);
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
    error_set(
        error,
        "pawl-status answered for type %s without saying epoch, file, uuid, length, tail, link, seq and messages as pawl-dump expects: "
        "are both of one version?",
        type);
  bson_destroy(parsed);
  return filled;
}

/* ---- the program ---- */

/* Finds pawl-status next to this program or in the build tree; false: it is left to the PATH. */
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

/* Our environment without PAWL_*: those are our options, already part of uri and db. The caller frees it, and [0] (and [1]) before. */
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

/* Starts the program with its stdout connected to `out`; `type` NULL: for all types. Returns 0 or an errno. */
static int status_spawn(const char *path, bool exact, const char *type, char **environment, int out, pid_t *child)
{
  char program[] = "pawl-status", json[] = "--json", type_flag[] = "--type", name[TYPE_BYTES_MAX + 1];
  snprintf(name, sizeof name, "%s", type != NULL ? type : "");
  char *arguments[] = {program, json, type != NULL ? type_flag : NULL, name, NULL};
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

/* The output of the program: lines, `bytes` in total; the caller frees `text`. */
struct answer {
  char *text;
  size_t bytes;
  int code; /* its exit code; -1: it did not start, a signal ended it, or its output is incomplete */
};

/* False: not all of the output could be read. */
static bool answer_copy(int from, FILE *to, struct error *error)
{
  char part[16384];
  size_t bytes = 0;
  for (;;) {
    ssize_t got = read(from, part, sizeof part);
    if (got == 0)
      return true;
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0) {
      error_set(error, "reading what pawl-status says: %s", strerror(errno));
      return false;
    }
    bytes += (size_t)got;
    if (bytes > ANSWER_BYTES_MAX) {
      error_set(error, "pawl-status said more than %d MiB", ANSWER_BYTES_MAX / 1024 / 1024);
      return false;
    }
    (void)fwrite(part, 1, (size_t)got, to); /* the caller checks ferror */
  }
}

/* Reads all of the output, or nothing. */
static bool answer_read(int from, struct answer *answer, struct error *error)
{
  FILE *to = open_memstream(&answer->text, &answer->bytes);
  error_set(error, "no memory for what pawl-status says");
  if (to == NULL)
    return false;
  bool whole = answer_copy(from, to, error) && ferror(to) == 0;
  if (fclose(to) == 0 && whole)
    return true;
  free(answer->text);
  *answer = (struct answer){.code = -1};
  return false;
}

static int failure;

int ledger_failure(void)
{
  return failure;
}

/* Records why no part of the answer could be used. */
static void failure_note(const struct answer *answer)
{
  if (answer->code == EXIT_UNAVAILABLE || answer->code == EXIT_USAGE)
    failure = answer->code;
}

static bool status_wait(pid_t child, int *code, struct error *error)
{
  int result = 0;
  while (waitpid(child, &result, 0) < 0)
    if (errno != EINTR) {
      error_set(error, "waiting for pawl-status: %s", strerror(errno));
      return false;
    }
  *code = WIFEXITED(result) ? WEXITSTATUS(result) : -1;
  if (*code == 0)
    return true;
  if (*code == 127)
    error_set(error, "pawl-status could not be started: --uri needs it, beside pawl-dump or on the PATH");
  else if (*code > 0)
    error_set(error, "pawl-status, asked for the ledger, ended with exit code %d", *code);
  else
    error_set(error, "pawl-status, asked for the ledger, was ended by signal %d", WTERMSIG(result));
  return false;
}

/* pawl-status's text about a ledger that it cannot read says more than its exit code. */
static bool problem_take(const struct answer *line, struct error *error)
{
  bson_t *parsed = line->bytes > 0 ? bson_new_from_json((const uint8_t *)line->text, (ssize_t)line->bytes, NULL) : NULL;
  const char *problem = parsed != NULL ? get_text(parsed, "problem") : NULL;
  if (problem != NULL)
    error_set(error, "%s", problem);
  if (parsed != NULL)
    bson_destroy(parsed);
  return problem != NULL;
}

/* False: it could not be started, or ended with an error, which `error` describes; *answer holds the output up to then all the same. */
static bool status_run(const char *uri, const char *db, const char *type, struct answer *answer, struct error *error)
{
  char path[PATH_MAX];
  int ends[2];
  pid_t child = 0;
  *answer = (struct answer){.code = -1};
  if (pipe2(ends, O_CLOEXEC) != 0) {
    error_set(error, "a pipe for pawl-status: %s", strerror(errno));
    return false;
  }
  char **environment = environment_make(uri, db);
  bool exact = status_find(path, sizeof path);
  int failed = environment == NULL ? ENOMEM : status_spawn(path, exact, type, environment, ends[1], &child);
  close(ends[1]);
  bool whole = failed == 0 && answer_read(ends[0], answer, error);
  if (failed != 0)
    error_set(error, "--uri needs the program pawl-status, beside pawl-dump or on the PATH: %s", strerror(failed));
  close(ends[0]);
  environment_free(environment);
  struct error ignored;
  int code = -1;
  bool ended_well = failed == 0 && status_wait(child, &code, whole ? error : &ignored);
  answer->code = whole ? code : -1;
  return whole && ended_well;
}

/* The first line about a type, else the first line. */
static struct answer line_about_type(const struct answer *said)
{
  static const char begin[] = "{ \"type\"";
  char *at = said->bytes > 0 ? memmem(said->text, said->bytes, begin, sizeof begin - 1) : NULL;
  at = at != NULL ? at : said->text;
  size_t left = (size_t)(said->text + said->bytes - at);
  char *end = left > 0 ? memchr(at, '\n', left) : NULL;
  return (struct answer){.text = at, .bytes = end != NULL ? (size_t)(end - at) : left};
}

/* pawl-status also ends with an error where workers would refuse the database; its line about the ledger is still correct. */
bool ledger_ask(const char *uri, const char *db, const char *type, struct ledger_answer *answer, struct error *error)
{
  struct answer said;
  struct error why;
  bool ended_well = status_run(uri, db, type, &said, error);
  struct answer line = line_about_type(&said);
  bool known = line.bytes > 0 && ledger_parse(line.text, line.bytes, type, answer, &why) && !problem_take(&line, error);
  if (!known && ended_well && line.bytes > 0)
    *error = why;
  else if (!known && ended_well)
    error_set(error, "pawl-status said nothing about type %s", type);
  else if (!known)
    (void)problem_take(&line, error);
  if (!known)
    failure_note(&said);
  free(said.text);
  return known;
}

/* ---- the list ---- */

/* The type of a line about a type that has a file, or a ledger that cannot be read. False: the line is about something else. */
static bool line_type(const char *line, size_t bytes, char type[TYPE_BYTES_MAX + 1])
{
  bson_t *parsed = bson_new_from_json((const uint8_t *)line, (ssize_t)bytes, NULL);
  if (parsed == NULL)
    return false;
  const char *name = get_text(parsed, "type"), *file = get_text(parsed, "file"), *kind = get_text(parsed, "kind");
  bool listed = name != NULL && type_name_valid(name) && (kind == NULL || strcmp(kind, "lock") != 0) &&
                ((file != NULL && file[0] != 0) || get_text(parsed, "problem") != NULL);
  if (listed)
    snprintf(type, TYPE_BYTES_MAX + 1, "%s", name);
  bson_destroy(parsed);
  return listed;
}

static bool types_parse(const struct answer *said, char (**types)[TYPE_BYTES_MAX + 1], size_t *count)
{
  size_t lines = 1;
  for (size_t i = 0; i < said->bytes; i++)
    lines += said->text[i] == '\n';
  *types = malloc(lines * sizeof **types);
  const char *at = said->text, *end = said->text + said->bytes;
  while (*types != NULL && at != NULL && at < end) {
    const char *feed = memchr(at, '\n', (size_t)(end - at));
    *count += line_type(at, (size_t)((feed != NULL ? feed : end) - at), (*types)[*count]);
    at = feed != NULL ? feed + 1 : NULL;
  }
  return *types != NULL;
}

bool ledger_list_types(const char *uri, const char *db, char (**types)[TYPE_BYTES_MAX + 1], size_t *count, struct error *error)
{
  struct answer said;
  *types = NULL;
  *count = 0;
  /*
   * pawl-status prints all types, or none. If it prints them, exit code 1 means that one ledger cannot be read, which that type's verdict
   * will report, and 2 that workers would refuse the database.
   */
  bool known = status_run(uri, db, NULL, &said, error) || ((said.code == EXIT_FAILED || said.code == EXIT_USAGE) && said.bytes > 0);
  if (!known)
    failure_note(&said);
  if (known && !types_parse(&said, types, count)) {
    error_set(error, "no memory for the types in the ledger");
    known = false;
  }
  free(said.text);
  return known;
}
