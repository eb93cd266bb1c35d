/*
 * pawl-dump: reads, verifies and follows storage files. docs/format.md describes the files and the options.
 *
 * Data go to stdout, all else to stderr. Several FILEs or types are read one after the other; --from-seq, --to-seq and --tail apply to each
 * of them, --limit to all together. --format blocks has the columns
 *
 *   file offset kind number epoch first-seq last-seq documents messages stored-bytes decoded-bytes codec time header-crc:body-crc
 */
#include "config/stop.h"
#include "tools/dump/dump.h"
#include "tools/dump/follow.h"
#include "tools/dump/ledger.h"
#include "tools/dump/messages.h"
#include "tools/dump/scan.h"
#include "tools/dump/spool.h"
#include "tools/dump/timeline.h"
#include "tools/dump/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { OUT_BUFFER_BYTES = 1 << 20 };

/* ---- stdout ---- */

/* As stdio's own write, but keeps errno: after a closed pipe pawl-dump exits silently, after a full disk it does not. */
static ssize_t out_write(void *cookie, const char *bytes, size_t size)
{
  struct dump *dump = cookie;
  size_t done = 0;
  while (done < size && dump->out_errno == 0) {
    ssize_t written = write(STDOUT_FILENO, bytes + done, size - done);
    if (written >= 0)
      done += (size_t)written;
    else if (errno != EINTR)
      dump->out_errno = errno;
  }
  return dump->out_errno == 0 ? (ssize_t)size : 0;
}

static bool out_open(struct dump *dump)
{
  dump->out = fopencookie(dump, "w", (cookie_io_functions_t){.write = out_write});
  dump->printer.out = dump->out;
  if (dump->out != NULL && setvbuf(dump->out, NULL, _IOFBF, OUT_BUFFER_BYTES) == 0)
    return true;
  dump_say("stdout: no memory");
  return false;
}

static void out_close(struct dump *dump)
{
  fclose(dump->out);
  if (dump->out_errno == 0 || dump->out_errno == EPIPE)
    return;
  dump_say("writing to stdout: %s", strerror(dump->out_errno));
  dump_note_exit(dump, DUMP_IO);
}

/* ---- options ---- */

static const char *options_wrong(const struct config *config, enum print_format format)
{
  bool scans = format == PRINT_BLOCKS || format == PRINT_SUMMARY;
  bool selects = config->from_seq >= 0 || config->to_seq >= 0 || config->since != NULL || config->until != NULL || config->limit >= 0 ||
                 config->tail >= 0 || config->where != NULL;
  if (config->argument_count == 0 && config->dir == NULL)
    return "nothing to read: give FILEs, or --dir DIR for the whole chains of segments in it";
  if (config->argument_count > 0 && config->type_count > 0)
    return "--type chooses among the types in --dir; a FILE is of one type";
  if (config->argument_count > 0 && config->dir != NULL)
    return "--dir reads all that is in DIR: give it, or FILEs";
  if (config->with_meta && !print_format_takes_meta(format))
    return "--with-meta goes with --format relaxed, canonical or bson";
  if (config->strict && config->unconfirmed)
    return "--strict leaves out what --unconfirmed asks for: give one of them";
  if (config->deep && !config->verify)
    return "--deep goes with --verify";
  if (config->verify && (selects || config->follow || config->count))
    return "--verify checks everything: it takes none of --from-seq, --to-seq, --since, --until, --where, --limit, --tail, --follow and "
           "--count";
  for (int i = 0; config->follow && i < config->argument_count; i++)
    if (spool_wanted(config->arguments[i]))
      return "--follow cannot follow a pipe: give a file";
  if (config->follow && (scans || config->count))
    return "--follow goes with formats that show messages, and not with --count";
  if (scans && (config->tail >= 0 || config->count))
    return "--format blocks and summary take neither --tail nor --count";
  if (scans && config->where != NULL)
    return "--format blocks and summary show no messages: they take no --where";
  if (config->timeline != NULL &&
      (config->verify || config->follow || config->count || config->where != NULL || config->limit >= 0 || config->tail >= 0))
    return "--timeline draws whole blocks: it takes none of --verify, --follow, --count, --where, --limit and --tail";
  if (format == PRINT_SUMMARY && config->limit >= 0)
    return "--format summary takes no --limit";
  return NULL;
}

static bool time_parse(const char *text, int64_t now_us, int64_t *time_us)
{
  if (text == NULL || config_parse_time(text, now_us, time_us))
    return true;
  dump_say("%s: neither an RFC 3339 time nor a duration", text);
  return false;
}

static bool dump_init(struct dump *dump, const struct config *config, struct ledgers *ledgers)
{
  struct timespec now;
  memset(dump, 0, sizeof *dump);
  dump->config = config;
  dump->ledgers = ledgers;
  dump->since_us = INT64_MIN;
  dump->until_us = INT64_MAX;
  dump->remaining = config->limit >= 0 ? config->limit : INT64_MAX;
  dump->printer =
      (struct printer){.with_meta = config->with_meta, .separator = config->separator, .separator_bytes = config->separator_bytes};
  bool known = print_format_parse(config->format, &dump->printer.format);
  if (config->where != NULL) {
    where_init(&dump->wanted, config->where);
    dump->where = &dump->wanted;
  }
  const char *wrong = known ? options_wrong(config, dump->printer.format) : "--format: unknown";
  if (wrong != NULL) {
    dump_say("%s (--help shows more)", wrong);
    return false;
  }
  clock_gettime(CLOCK_REALTIME, &now);
  int64_t now_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
  return time_parse(config->since, now_us, &dump->since_us) && time_parse(config->until, now_us, &dump->until_us);
}

/* ---- sources ---- */

static void print_messages(struct dump *dump, const struct source *source)
{
  struct selection selection;
  selection_init(&selection, dump, source);
  if (selection_advance(&selection) != SELECTION_STOPPED)
    selection_finish(&selection);
  selection_deinit(&selection);
}

static void print_source(struct dump *dump, const struct source *source)
{
  if (dump->timeline != NULL) {
    timeline_add(dump->timeline, dump, source);
    return;
  }
  switch (dump->printer.format) {
  case PRINT_BLOCKS:
    scan_blocks(dump, source);
    break;
  case PRINT_SUMMARY:
    scan_summary(dump, source);
    break;
  case PRINT_RELAXED:
  case PRINT_CANONICAL:
  case PRINT_PAYLOAD:
  case PRINT_BSON:
  case PRINT_HEX:
  case PRINT_NONE:
    print_messages(dump, source);
    break;
  }
}

static enum read_status source_open(struct source *source, struct dump *dump, const char *name, bool single, struct error *error)
{
  return single ? source_open_file(source, dump, name, error) : source_open_type(source, dump, name, error);
}

/* A FILE, or (single false) a type. */
static void dump_source(struct dump *dump, const char *name, bool single)
{
  struct source source;
  struct error error = {.text = ""};
  enum read_status status = source_open(&source, dump, name, single, &error);
  /* The ledger was read before the directory was listed: a worker may have made the type's first file between the two. */
  if (status == READ_OK && source.has_ledger && source.chain.count == 0 && source.chain.orphan_count > 0) {
    source_close(&source);
    status = source_open(&source, dump, name, single, &error);
  }
  if (dump->config->verify)
    verify_source(dump, &source, name, status, &error);
  else {
    if (status == READ_DAMAGED)
      source_say_damage(&source, &error);
    dump_note_status(dump, status, &error);
    if (status == READ_OK || (status == READ_DAMAGED && dump->config->keep_going))
      print_source(dump, &source);
  }
  if (status == READ_OK)
    source_note_unexpected(&source, dump);
  source_close(&source);
}

/* After an error the rest of the output would seem complete, so stop. */
static bool wants_more(const struct dump *dump)
{
  return dump_goes_on(dump) &&
         (dump->config->verify || dump->config->keep_going || dump->exit == DUMP_FINE || dump->exit == DUMP_UNCONFIRMED);
}

/* Dumps the types that have a segment in the directory. */
static void dump_types(struct dump *dump)
{
  char(*types)[TYPE_BYTES_MAX + 1] = NULL;
  size_t count = 0;
  struct error error;
  enum read_status status = chain_list_types(dump->config->dir, &types, &count, &error);
  dump_note_status(dump, status, &error);
  if (status == READ_OK && count == 0)
    dump_note(dump, "%s: no segments", dump->config->dir);
  for (size_t i = 0; status == READ_OK && i < count && wants_more(dump); i++)
    dump_source(dump, types[i], false);
  free(types);
}

static void dump_directory(struct dump *dump)
{
  const struct config *config = dump->config;
  for (size_t i = 0; i < config->type_count && wants_more(dump); i++)
    dump_source(dump, config->types[i], false);
  if (config->type_count == 0)
    dump_types(dump);
}

static int by_name(const void *left, const void *right)
{
  return strcmp(left, right);
}

/* Appends `more` to *types, sorted, without duplicates. False: no memory. */
static bool types_join(char (**types)[TYPE_BYTES_MAX + 1], size_t *count, const char (*more)[TYPE_BYTES_MAX + 1], size_t more_count)
{
  size_t all = *count + more_count, kept = 0;
  if (more_count == 0)
    return true;
  void *joined = realloc(*types, all * sizeof **types);
  if (joined == NULL)
    return false;
  *types = joined;
  memcpy(*types + *count, more, more_count * sizeof *more);
  qsort(*types, all, sizeof **types, by_name);
  for (size_t i = 0; i < all; i++)
    if (kept == 0 || strcmp((*types)[kept - 1], (*types)[i]) != 0)
      memmove((*types)[kept++], (*types)[i], sizeof **types);
  *count = kept;
  return true;
}

/*
 * The types that have a segment in the directory, and with --uri also those of the ledger, because a missing file is the worst fault of
 * all.
 */
static enum read_status types_to_verify(const struct dump *dump, char (**types)[TYPE_BYTES_MAX + 1], size_t *count, struct error *error)
{
  const struct config *config = dump->config;
  char(*known)[TYPE_BYTES_MAX + 1] = NULL;
  size_t known_count = 0;
  enum read_status status = chain_list_types(config->dir, types, count, error);
  if (status != READ_OK || !config->uri_given)
    return status;
  bool listed = ledger_list_types(dump->ledgers, &known, &known_count, error);
  bool joined = listed && types_join(types, count, (const char(*)[TYPE_BYTES_MAX + 1]) known, known_count);
  if (listed && !joined)
    error_set(error, "no memory for the types in the ledger");
  free(known);
  return joined ? READ_OK : READ_FAILED;
}

static void verify_types(struct dump *dump)
{
  const struct config *config = dump->config;
  char(*types)[TYPE_BYTES_MAX + 1] = NULL;
  size_t count = 0;
  struct error error;
  enum read_status status = types_to_verify(dump, &types, &count, &error);
  if (status != READ_OK)
    verify_directory(dump, false, error.text);
  else if (count == 0) {
    error_set(&error, "nothing to verify: no segment of any type is in it%s%s",
              config->uri_given ? ", and no ledger names one in database " : "", config->uri_given ? config_db_name(config) : "");
    verify_directory(dump, true, error.text);
  }
  for (size_t i = 0; status == READ_OK && i < count && wants_more(dump); i++)
    dump_source(dump, types[i], false);
  free(types);
}

static void print_count(struct dump *dump)
{
  fprintf(dump->out, "%" PRId64 "\n", dump->selected);
  if (dump->selected != dump->documents)
    dump_note(dump, "%" PRId64 " message%s in %" PRId64 " document%s", dump->selected, plural(dump->selected), dump->documents,
              plural(dump->documents));
}

/* False: it was reported. */
static bool timeline_begin(struct dump *dump)
{
  const char *name = dump->config->timeline;
  if (name == NULL)
    return true;
  if (!timeline_name_free(name))
    return false;
  dump->timeline = timeline_new();
  if (dump->timeline == NULL)
    dump_say("--timeline: no memory");
  return dump->timeline != NULL;
}

static void timeline_end(struct dump *dump)
{
  if (dump->timeline != NULL)
    timeline_write(dump->timeline, dump, dump->config->timeline);
  timeline_free(dump->timeline);
}

/* Nothing on stdout may also mean that FIELD or VALUE is mistyped. */
static void dump_say_nothing_found(const struct dump *dump)
{
  if (dump->where != NULL && dump->selected == 0 && dump->exit == DUMP_FINE)
    dump_note(dump, "no message has %s", dump->config->where);
}

static void dump_run(struct dump *dump)
{
  const struct config *config = dump->config;
  if (config->follow) {
    follow(dump);
    return;
  }
  for (int i = 0; i < config->argument_count && wants_more(dump); i++)
    dump_source(dump, config->arguments[i], true);
  if (config->argument_count == 0 && config->verify && config->type_count == 0)
    verify_types(dump);
  else if (config->argument_count == 0)
    dump_directory(dump);
  if (config->count)
    print_count(dump);
}

static void dump_say_without_payload(const struct dump *dump)
{
  const struct printer *printer = &dump->printer;
  bool one = printer->without_payload == 1;
  if (printer->without_payload > 0)
    dump_note(dump, "%" PRIu64 " of %" PRIu64 " message%s %s no field payload: nothing was printed for %s", printer->without_payload,
              printer->printed, plural((int64_t)printer->printed), one ? "has" : "have", one ? "it" : "them");
}

int main(int argc, char **argv)
{
  struct config config;
  struct dump dump;
  struct ledgers ledgers;
  int exit_code = DUMP_FINE;
  stop_at_once();
  if (!config_begin(&config, CONFIG_DUMP, argc, argv, stdout, stderr, &exit_code))
    return exit_code;
  ledger_begin(&ledgers, config.uri, config.db);
  if (!dump_init(&dump, &config, &ledgers) || !timeline_begin(&dump) || !out_open(&dump)) {
    config_free(&config);
    return DUMP_USAGE;
  }
  signal(SIGPIPE, SIG_IGN);
  dump_run(&dump);
  timeline_end(&dump);
  dump_say_without_payload(&dump);
  dump_say_nothing_found(&dump);
  out_close(&dump);
  config_free(&config);
  exit_code = dump.exit == DUMP_IO && ledgers.failure != 0 ? ledgers.failure : (int)dump.exit;
  if (ledgers.store != NULL)
    stop_now(exit_code); /* closes the connection, and does not wait for the driver's threads */
  return exit_code;
}
