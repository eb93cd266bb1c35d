#include "storage/dump_source.h"
#include "storage/dump_ledger.h"

#include <inttypes.h>
#include <stdlib.h>

/* The newest segment's end: *known false without --uri. READ_FAILED: the ledger did not answer. */
static enum read_status end_ask(const struct dump *dump, const char *type, struct committed *end, bool *known, struct error *error)
{
  *known = dump->config->uri_given;
  if (!*known)
    return READ_OK;
  return ledger_ask(dump->config->uri, dump->config->db, type, end, error) ? READ_OK : READ_FAILED;
}

static enum read_status chain_ask(const struct source *source, const struct dump *dump, struct chain *chain, struct error *error)
{
  struct committed end;
  bool known = false;
  memset(chain, 0, sizeof *chain);
  enum read_status status = end_ask(dump, source->type, &end, &known, error);
  return status == READ_OK ? chain_load(chain, source->dir, source->type, known ? &end : NULL, error) : status;
}

/* ---- one file ---- */

static const struct segment *segment_find(const struct chain *chain, const struct segment *wanted)
{
  for (size_t i = 0; i < chain->count; i++)
    if (strcmp(chain->segments[i].name, wanted->name) == 0 &&
        memcmp(chain->segments[i].header.uuid, wanted->header.uuid, sizeof wanted->header.uuid) == 0)
      return &chain->segments[i];
  return NULL;
}

/* Looks for the file's end in the chain that it is part of. */
static enum read_status single_find_end(struct source *source, const struct dump *dump, struct error *error)
{
  struct chain chain;
  struct segment *own = &source->chain.segments[0];
  enum read_status status = chain_ask(source, dump, &chain, error);
  const struct segment *found = segment_find(&chain, own);
  if (found != NULL && found->has_end) {
    own->has_end = true;
    own->end = found->end;
  }
  if (found != NULL && found + 1 < chain.segments + chain.count) {
    source->over = true;
    snprintf(source->successor, sizeof source->successor, "%s", found[1].name);
  }
  if (found == NULL && dump->config->uri_given && (status == READ_OK || status == READ_DAMAGED))
    dump_note(dump, "%s: the ledger does not lead to this file: how much of it is committed is not known", own->name);
  chain_free(&chain);
  return status == READ_FAILED || status == READ_NEWER ? status : READ_OK;
}

static bool path_split(struct source *source, const char *path, char name[FILE_NAME_SIZE], struct error *error)
{
  const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
  size_t dir_bytes = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
  if (base[0] == 0 || strlen(base) >= FILE_NAME_SIZE) {
    error_set(error, "%s: no file name of a segment", path);
    return false;
  }
  snprintf(name, FILE_NAME_SIZE, "%s", base);
  source->dir = slash == NULL ? strdup(".") : strndup(path, dir_bytes);
  if (source->dir == NULL)
    error_set(error, "%s: no memory", path);
  return source->dir != NULL;
}

enum read_status source_open_file(struct source *source, const struct dump *dump, const char *path, struct error *error)
{
  struct reader reader;
  char name[FILE_NAME_SIZE];
  memset(source, 0, sizeof *source);
  source->single = true;
  if (!path_split(source, path, name, error))
    return READ_FAILED;
  enum read_status status = reader_open(&reader, source->dir, name, NULL, error);
  if (status != READ_OK)
    return status;
  reader_close(&reader);
  source->chain.segments = calloc(1, sizeof *source->chain.segments);
  if (source->chain.segments == NULL) {
    error_set(error, "%s: no memory", path);
    return READ_FAILED;
  }
  source->chain.count = 1;
  source->chain.segments[0].header = reader.header;
  snprintf(source->chain.segments[0].name, FILE_NAME_SIZE, "%s", name);
  snprintf(source->type, sizeof source->type, "%s", reader.header.type);
  return dump->config->uri_given ? single_find_end(source, dump, error) : READ_OK;
}

/* ---- one type ---- */

enum read_status source_open_type(struct source *source, const struct dump *dump, const char *type, struct error *error)
{
  memset(source, 0, sizeof *source);
  snprintf(source->type, sizeof source->type, "%s", type);
  source->dir = strdup(dump->config->dir);
  if (source->dir != NULL)
    return chain_ask(source, dump, &source->chain, error);
  error_set(error, "%s: no memory", type);
  return READ_FAILED;
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
}

const char *source_name(const struct source *source)
{
  return source->single && source->chain.count > 0 ? source->chain.segments[0].name : source->type;
}

void source_say_damage(const struct source *source, const struct error *error)
{
  dump_say("damaged: %s", error->text);
  if (source->chain.count > 0)
    dump_say("%s: all messages before seq %" PRId64 " are gone or cannot be reached", source->type,
             source->chain.segments[0].header.first_seq);
  else
    dump_say("%s: none of its messages can be reached", source->type[0] != 0 ? source->type : "the file");
}

void source_note_oddities(const struct source *source, const struct dump *dump)
{
  const struct chain *chain = &source->chain;
  for (size_t i = 0; i < chain->orphan_count; i++)
    dump_note(dump, "%s: an orphan, not read: no segment of the chain of %s names it", chain->orphans[i], source->type);
  if (chain->pruned && chain->count > 0)
    dump_note(dump, "%s: older segments are not here any more: it begins with seq %" PRId64, source->type,
              chain->segments[0].header.first_seq);
  if (chain->count == 0 && !source->single)
    dump_note(dump, "%s: no segment in %s", source->type, source->dir);
}
