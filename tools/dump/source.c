#include "tools/dump/source.h"
#include "tools/dump/spool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

enum read_status source_ask_again(const struct source *source, const struct dump *dump, struct ledger_answer *answer, struct chain *chain,
                                  struct error *error)
{
  memset(chain, 0, sizeof *chain);
  if (!ledger_ask(dump->ledgers, source->type, answer, error))
    return READ_FAILED;
  return source->spool >= 0 ? READ_OK : chain_load(chain, source->dir, source->type, &answer->end, 0, error);
}

static enum read_status chain_ask(struct source *source, const struct dump *dump, struct chain *chain, struct error *error)
{
  memset(chain, 0, sizeof *chain);
  source->has_ledger = dump->config->uri_given;
  if (source->has_ledger)
    return source_ask_again(source, dump, &source->ledger, chain, error);
  return source->spool >= 0 ? READ_OK : chain_load(chain, source->dir, source->type, NULL, 0, error);
}

/* ---- one file ---- */

/* For a segment without a valid header perhaps only the file_id is known. */
static size_t known_uuid_bytes(const struct segment *segment)
{
  return segment->headless ? 8 : sizeof segment->header.uuid;
}

static bool segment_is(const struct segment *segment, const struct segment *other)
{
  size_t bytes = segment->headless ? known_uuid_bytes(segment) : known_uuid_bytes(other);
  return strcmp(segment->name, other->name) == 0 && memcmp(segment->header.uuid, other->header.uuid, bytes) == 0;
}

static const struct segment *segment_find(const struct chain *chain, const struct segment *wanted)
{
  for (size_t i = 0; i < chain->count; i++)
    if (segment_is(&chain->segments[i], wanted))
      return &chain->segments[i];
  return NULL;
}

/* Finds the file's end in the chain that it is part of. */
static enum read_status single_find_end(struct source *source, const struct dump *dump, struct error *error)
{
  struct chain chain;
  struct segment *own = &source->chain.segments[0];
  enum read_status status = chain_ask(source, dump, &chain, error);
  const struct segment *found = segment_find(&chain, own);
  /* The copy of a pipe has no name and no neighbours. */
  bool piped = source->spool >= 0 && source->has_ledger && memcmp(source->ledger.end.uuid, own->header.uuid, known_uuid_bytes(own)) == 0;
  if (piped || (found != NULL && found->has_end)) {
    own->has_end = true;
    own->end = piped ? source->ledger.end : found->end;
  }
  if (found != NULL && found + 1 < chain.segments + chain.count) {
    source->over = true;
    snprintf(source->successor, sizeof source->successor, "%s", found[1].name);
  }
  source->unknown = source->has_ledger && found == NULL && !piped && (status == READ_OK || status == READ_DAMAGED);
  if (source->unknown && !dump->config->verify)
    dump_note(dump, "%s: the ledger of type %s in database %s does not lead to this file: how much of it is committed is not known",
              source_name(source), source->type, config_db_name(dump->config));
  chain_free(&chain);
  return status == READ_FAILED || status == READ_NEWER ? status : READ_OK;
}

/* The directory and the bare name in it that `path` leads to, after symbolic links are followed. */
static bool path_split(struct source *source, const char *path, char name[FILE_NAME_SIZE], struct error *error)
{
  const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
  size_t dir_bytes = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
  if (base[0] == 0 || strlen(base) >= FILE_NAME_SIZE) {
    error_set(error, "%s: not a pawl file: its name is %s", path, base[0] == 0 ? "that of a directory" : "too long");
    return false;
  }
  snprintf(name, FILE_NAME_SIZE, "%s", base);
  source->dir = slash == NULL ? strdup(".") : strndup(path, dir_bytes);
  if (source->dir == NULL)
    error_set(error, "%s: no memory", path);
  return source->dir != NULL;
}

static bool path_resolve(struct source *source, const char *path, char name[FILE_NAME_SIZE], struct error *error)
{
  char *target = realpath(path, NULL); /* NULL: the open will report why */
  bool split = path_split(source, target != NULL ? target : path, name, error);
  free(target);
  return split;
}

/* A pipe: reads its copy instead. */
static bool spool_take(struct source *source, const char *path, char name[FILE_NAME_SIZE], struct error *error)
{
  source->spool = spool_copy(path, error);
  snprintf(name, FILE_NAME_SIZE, "%d", source->spool);
  source->dir = strdup(FILE_DIR_OPEN);
  return source->spool >= 0 && source->dir != NULL;
}

/* As format_header_foreign; `empty` is the answer for an empty file. */
static bool is_foreign(const char *dir, const char *name, bool empty)
{
  uint8_t bytes[FORMAT_CONSTANT_BYTES];
  size_t got = 0;
  struct file file;
  struct error ignored;
  if (file_open(&file, dir, name, FILE_READ, 0, &ignored) != FILE_OK)
    return false;
  bool read = file_read(&file, 0, bytes, sizeof bytes, &got, &ignored) == FILE_OK;
  return file_close(&file, &ignored) == FILE_OK && read && (got == 0 ? empty : format_header_foreign(bytes, got));
}

/* A process that dies while it creates a segment leaves an empty file. */
bool source_is_foreign(const char *dir, const char *name)
{
  return is_foreign(dir, name, false);
}

/* The only segment of the chain. READ_DAMAGED with a segment: its header is damaged, and its type comes from its name, if that has one. */
static enum read_status single_load(struct source *source, const char *name, struct error *error)
{
  struct reader reader;
  struct error cause;
  int64_t epoch = 0;
  enum read_status status = reader_open(&reader, source->dir, name, NULL, error), usable = status;
  if (status == READ_DAMAGED)
    usable = reader_open_headless(&reader, source->dir, name, NULL, &cause);
  if (status == READ_DAMAGED && usable == READ_FAILED)
    *error = cause;
  source->foreign = usable == READ_DAMAGED && is_foreign(source->dir, name, true);
  if (usable != READ_OK)
    return usable;
  reader_close(&reader);
  struct segment *segment = source->chain.segments = calloc(1, sizeof *segment);
  if (segment == NULL) {
    error_set(error, "%s: no memory", name);
    return READ_FAILED;
  }
  source->chain.count = 1;
  segment->header = reader.header;
  segment->headless = status == READ_DAMAGED;
  snprintf(segment->name, sizeof segment->name, "%s", name);
  snprintf(source->type, sizeof source->type, "%s", reader.header.type);
  if (segment->headless && !segment_name_parse(name, source->type, &epoch))
    source->type[0] = 0;
  return status;
}

enum read_status source_open_file(struct source *source, const struct dump *dump, const char *path, struct error *error)
{
  char name[FILE_NAME_SIZE];
  struct error failure;
  memset(source, 0, sizeof *source);
  source->single = true;
  source->spool = -1;
  snprintf(source->given, sizeof source->given, "%s", strcmp(path, "-") == 0 ? "standard input" : path);
  if (!(spool_wanted(path) ? spool_take : path_resolve)(source, path, name, error))
    return READ_FAILED;
  enum read_status status = single_load(source, name, error);
  if (source->chain.count == 0 || source->type[0] == 0 || !dump->config->uri_given)
    return status;
  enum read_status ended = single_find_end(source, dump, &failure);
  if (ended == READ_OK)
    return status;
  *error = failure;
  return ended;
}

/* ---- one type ---- */

enum read_status source_open_type(struct source *source, const struct dump *dump, const char *type, struct error *error)
{
  memset(source, 0, sizeof *source);
  source->spool = -1;
  snprintf(source->type, sizeof source->type, "%s", type);
  source->dir = strdup(dump->config->dir);
  if (source->dir == NULL) {
    error_set(error, "%s: no memory", type);
    return READ_FAILED;
  }
  enum read_status status = chain_ask(source, dump, &source->chain, error);
  const struct chain *chain = &source->chain;
  source->foreign = chain->count == 0 && chain->orphan_count > 0;
  for (size_t i = 0; i < chain->orphan_count && source->foreign; i++)
    source->foreign = source_is_foreign(source->dir, chain->orphans[i]);
  return status;
}

static const struct segment *newest(const struct chain *chain)
{
  return chain->count > 0 ? &chain->segments[chain->count - 1] : NULL;
}

enum read_status source_refresh(struct source *source, const struct dump *dump, bool *changed, struct error *error)
{
  *changed = false;
  if (source->single)
    return single_find_end(source, dump, error);
  struct chain chain;
  enum read_status status = chain_ask(source, dump, &chain, error);
  const struct segment *was = newest(&source->chain), *is = newest(&chain);
  *changed = is != NULL && (was == NULL || segment_find(&chain, was) != is || chain.count != source->chain.count);
  if (status == READ_OK) {
    chain_free(&source->chain);
    source->chain = chain;
  } else
    chain_free(&chain);
  return status;
}

void source_close(struct source *source)
{
  chain_free(&source->chain);
  free(source->dir);
  source->dir = NULL;
  if (source->spool >= 0)
    close(source->spool);
  source->spool = -1;
}

const char *source_name(const struct source *source)
{
  return source->single && source->chain.count > 0 ? source_segment_name(source, &source->chain.segments[0]) : source->type;
}

const char *source_segment_name(const struct source *source, const struct segment *segment)
{
  return source->spool >= 0 ? source->given : segment->name;
}

int64_t source_lost(const struct source *source)
{
  return source->single || source->chain.count == 0 ? 0 : source->chain.segments[0].header.first_seq - 1;
}

void source_say_damage(const struct source *source, const struct error *error)
{
  if (source->foreign) {
    dump_say("%s: not a pawl file", error->text);
    return;
  }
  dump_say("damaged: %s", error->text);
  if (source->chain.count == 0) {
    dump_say("%s: none of its messages can be reached", source->type[0] != 0 ? source->type : "the file");
    return;
  }
  const struct segment *oldest = &source->chain.segments[0];
  if (oldest->headless)
    dump_say("%s: what its blocks prove without the header can be read (--keep-going)", source_segment_name(source, oldest));
  if (source_lost(source) > 0)
    dump_say("%s: all messages before seq %" PRId64 " are gone or cannot be reached", source->type, oldest->header.first_seq);
}

/* ---- orphans ---- */

/* A file that neither the ledger nor another segment names. */
enum unexpected {
  UNEXPECTED_ORPHAN,
  UNEXPECTED_FOREIGN,    /* not a file of pawl */
  UNEXPECTED_INCOMPLETE, /* no whole header, and nothing after it: it was never committed */
  UNEXPECTED_CURRENT,    /* made in the ledger's current epoch: the ledger may still name it */
  UNEXPECTED_LATER,      /* made in an epoch that the ledger has not reached */
  UNEXPECTED_UNREADABLE, /* what it holds is not known */
};

static bool is_bare(const char *dir, const char *name)
{
  struct file file;
  struct error ignored;
  int64_t size = 0;
  if (file_open(&file, dir, name, FILE_READ, 0, &ignored) != FILE_OK)
    return false;
  bool bare = file_size(&file, &size, &ignored) == FILE_OK && size <= FORMAT_HEADER_BYTES;
  return file_close(&file, &ignored) == FILE_OK && bare;
}

/* `epoch`: the ledger's; -1: not known. `why`: of one that cannot be read. */
static enum unexpected unexpected_of(const struct source *source, const char *name, int64_t epoch, int64_t *made, struct error *why)
{
  struct reader reader;
  enum read_status status = reader_open(&reader, source->dir, name, NULL, why);
  if (status == READ_DAMAGED && source_is_foreign(source->dir, name))
    return UNEXPECTED_FOREIGN;
  if (status == READ_DAMAGED && is_bare(source->dir, name))
    return UNEXPECTED_INCOMPLETE;
  if (status != READ_OK)
    return UNEXPECTED_UNREADABLE;
  *made = reader.header.epoch;
  reader_close(&reader);
  return epoch < 0 || *made < epoch ? UNEXPECTED_ORPHAN : *made == epoch ? UNEXPECTED_CURRENT : UNEXPECTED_LATER;
}

static void unexpected_log(const struct source *source, const struct dump *dump, const char *name, int64_t epoch)
{
  int64_t made = 0;
  struct error why;
  switch (unexpected_of(source, name, epoch, &made, &why)) {
  case UNEXPECTED_ORPHAN:
    dump_note(dump, "%s: an orphan, not read: no segment of the chain of %s names it", name, source->type);
    return;
  case UNEXPECTED_FOREIGN:
    dump_note(dump, "%s: not a pawl file, not read: it does not begin with the header of one", name);
    return;
  case UNEXPECTED_INCOMPLETE:
    dump_note(dump, "%s: an incomplete header, not read: its maker died before it was committed, or is writing it now", name);
    return;
  case UNEXPECTED_CURRENT:
    dump_note(dump, "%s: made in the current epoch %" PRId64 ", and not named by the ledger yet: not read (database %s)", name, epoch,
              config_db_name(dump->config));
    return;
  case UNEXPECTED_LATER:
    dump_note(dump, "%s: made in epoch %" PRId64 ", and the ledger is at %" PRId64 ", older than these files: not read (database %s)", name,
              made, epoch, config_db_name(dump->config));
    return;
  case UNEXPECTED_UNREADABLE:
    dump_note(dump, "%s: not read, and what it holds is not known: %s", name, why.text);
    return;
  }
}

static bool is_named(const struct chain *chain, const char *name)
{
  for (size_t i = 0; i < chain->count; i++)
    if (strcmp(chain->segments[i].name, name) == 0)
      return true;
  return false;
}

/*
 * The ledger was read before the directory was listed, and a worker may have made and committed a segment between the two. So only a ledger
 * that is read after the listing can decide. Without an answer nothing is printed.
 */
static void unexpected_log_all(const struct source *source, const struct dump *dump)
{
  const struct chain *chain = &source->chain;
  struct chain later = {0};
  struct ledger_answer answer = {.epoch = -1};
  struct error ignored;
  if (chain->orphan_count == 0)
    return;
  enum read_status status = source->has_ledger ? source_ask_again(source, dump, &answer, &later, &ignored) : READ_OK;
  for (size_t i = 0; status == READ_OK && i < chain->orphan_count; i++)
    if (!is_named(&later, chain->orphans[i]))
      unexpected_log(source, dump, chain->orphans[i], answer.epoch);
  chain_free(&later);
}

void source_note_unexpected(const struct source *source, const struct dump *dump)
{
  const struct chain *chain = &source->chain;
  unexpected_log_all(source, dump);
  if (chain->pruned && chain->count > 0)
    dump_note(dump, "%s: older segments are not here any more: it begins with seq %" PRId64, source->type,
              chain->segments[0].header.first_seq);
  if (chain->count == 0 && !source->single && !dump->config->verify)
    dump_note(dump, "%s: no segment in %s", source->type, source->dir);
}
