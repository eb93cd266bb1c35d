#include "tools/dump/verify.h"
#include "tools/dump/deep.h"
#include "tools/dump/scan.h"
#include "tools/dump/stale.h"

#include <inttypes.h>
#include <stdlib.h>

enum finding {
  FOUND_OK,
  FOUND_DOUBTFUL,
  FOUND_DAMAGED,
  FOUND_STALE,
  FOUND_UNKNOWN,
  FOUND_MISSING,
  FOUND_FOREIGN,
  FOUND_ABSENT,
  FOUND_NEWER,
  FOUND_UNREADABLE,
};

static const struct {
  const char *word;
  enum dump_exit exit;
} findings[] = {
    [FOUND_OK] = {"ok", DUMP_FINE},
    [FOUND_DOUBTFUL] = {"doubtful", DUMP_DAMAGED},
    [FOUND_DAMAGED] = {"damaged", DUMP_DAMAGED},
    [FOUND_STALE] = {"stale ledger", DUMP_DAMAGED},
    [FOUND_UNKNOWN] = {"unknown", DUMP_DAMAGED},
    [FOUND_MISSING] = {"missing", DUMP_DAMAGED},
    [FOUND_FOREIGN] = {"not a pawl file", DUMP_DAMAGED},
    [FOUND_ABSENT] = {"absent", DUMP_IO},
    [FOUND_NEWER] = {"newer", DUMP_NEWER},
    [FOUND_UNREADABLE] = {"unreadable", DUMP_IO},
};

struct verdict {
  enum finding finding;
  struct error why; /* for all findings except ok, doubtful and damaged, which print figures instead; and if it `stopped` */
  struct totals totals;
  int64_t bytes; /* of headers and blocks */
  uint64_t link; /* of the last block: the value that the next block will carry */
  size_t damages;
  int64_t lost;      /* documents known to be lost */
  bool lost_unknown; /* and perhaps more */
  int64_t unconfirmed;
  bool torn;
  bool stopped; /* damaged, and not read to its end */
};

static void verdict_damage(struct verdict *verdict, int64_t lost_first, int64_t lost_last)
{
  verdict->finding = FOUND_DAMAGED;
  verdict->damages++;
  verdict->lost_unknown = verdict->lost_unknown || lost_last < 0;
  if (lost_last >= lost_first && __builtin_add_overflow(verdict->lost, lost_last - lost_first + 1, &verdict->lost))
    verdict->lost = INT64_MAX;
}

/* At the end of a walk: records the last block, and whether it is known to be committed. */
static void verdict_end(struct verdict *verdict, const struct walk *walk)
{
  const struct reader *reader = &walk->at.reader;
  verdict->torn = walk->torn;
  if (!walk->at.open)
    return;
  verdict->link = reader->has_last ? format_marker_link(&reader->last) : format_header_link(&reader->header);
  if (!reader->has_end && reader->has_last && reader->last.kind == BLOCK_DATA)
    verdict->unconfirmed = reader->last.count;
}

/* Damage that was found before is the graver finding. */
static void verdict_stop(struct verdict *verdict, enum finding finding, const struct error *why)
{
  verdict->stopped = verdict->finding == FOUND_DAMAGED;
  if (!verdict->stopped)
    verdict->finding = finding;
  verdict->why = *why;
}

static void read_all(struct verdict *verdict, const struct source *source, struct deep *deep)
{
  struct walk walk;
  bool reading = true;
  walk_init(&walk, source, false);
  while (reading) {
    switch (walk_next(&walk)) {
    case WALK_BLOCK:
      totals_add_block(&verdict->totals, walk_block(&walk));
      if (deep != NULL && walk_block(&walk)->kind == BLOCK_DATA)
        deep_check(deep, walk_block(&walk), walk.at.reader.messages, walk.at.reader.messages_bytes);
      break;
    case WALK_DAMAGED:
      walk_say_damage(&walk);
      verdict_damage(verdict, walk.lost_first, walk.lost_last);
      break;
    case WALK_END:
      verdict_end(verdict, &walk);
      reading = false;
      break;
    case WALK_NEWER:
      verdict_stop(verdict, FOUND_NEWER, &walk.error);
      reading = false;
      break;
    case WALK_FAILED:
      verdict_stop(verdict, FOUND_UNREADABLE, &walk.error);
      reading = false;
      break;
    }
  }
  walk_deinit(&walk);
  verdict->bytes = totals_file_bytes(&verdict->totals, source->chain.count);
}

static void print_damage(FILE *out, const struct verdict *verdict, size_t segments)
{
  if (verdict->finding != FOUND_DAMAGED)
    return;
  if (segments == 0) {
    fputs(", none of its documents can be reached", out);
    return;
  }
  fprintf(out, ", damaged in %zu place%s, %s%" PRId64 " document%s gone", verdict->damages, plural((int64_t)verdict->damages),
          verdict->lost_unknown ? "at least " : "", verdict->lost, plural(verdict->lost));
}

static void print_deep(FILE *out, const struct deep *deep)
{
  if (deep == NULL)
    return;
  if (deep->wrong_type > 0)
    fprintf(out, ", %" PRId64 " of another type", deep->wrong_type);
  if (deep->repeated > 0)
    fprintf(out, ", %" PRId64 " repeated _id%s", deep->repeated, plural(deep->repeated));
  if (deep->malformed > 0)
    fprintf(out, ", %" PRId64 " malformed inside", deep->malformed);
  if (deep->miscounted > 0)
    fprintf(out, ", messages miscounted in %" PRId64 " block%s", deep->miscounted, plural(deep->miscounted));
}

static bool has_figures(enum finding finding)
{
  return finding == FOUND_OK || finding == FOUND_DOUBTFUL || finding == FOUND_DAMAGED;
}

static void print_verdict(FILE *out, const struct source *source, const char *name, const struct verdict *verdict, const struct deep *deep)
{
  char size[SIZE_TEXT_SIZE];
  const struct totals *totals = &verdict->totals;
  const char *word = findings[verdict->finding].word;
  if (!has_figures(verdict->finding)) {
    fprintf(out, "%s: %s, %s\n", name, word, verdict->why.text);
    return;
  }
  size_t segments = source->chain.count;
  fprintf(out, "%s: %s, %zu segment%s, %" PRId64 " block%s, %" PRId64 " document%s, %" PRId64 " message%s", name, word, segments,
          plural((int64_t)segments), totals->blocks, plural(totals->blocks), totals->documents, plural(totals->documents), totals->messages,
          plural(totals->messages));
  fprintf(out, ", %s, link %016" PRIx64, size_text(verdict->bytes, size), verdict->link);
  print_damage(out, verdict, segments);
  print_deep(out, deep);
  if (verdict->unconfirmed > 0)
    fprintf(out, ", the last %" PRId64 " document%s unconfirmed", verdict->unconfirmed, plural(verdict->unconfirmed));
  if (verdict->stopped)
    fprintf(out, ", not read to its end: %s", verdict->why.text);
  fputs(verdict->torn ? ", then an uncommitted tail\n" : "\n", out);
}

static enum dump_exit verdict_exit(const struct dump *dump, const struct verdict *verdict)
{
  if (verdict->finding == FOUND_OK && dump->config->strict && verdict->unconfirmed > 0)
    return DUMP_UNCONFIRMED;
  return findings[verdict->finding].exit;
}

/* ---- not readable, or not countable ---- */

static bool is_there(const struct source *source, const char *name)
{
  struct file file;
  struct error ignored;
  enum file_status status = file_open(&file, source->dir, name, FILE_READ, 0, &ignored);
  return status != FILE_ABSENT && (status != FILE_OK || file_close(&file, &ignored) == FILE_OK);
}

/* READ_OK: a block was committed to it. READ_FAILED: that cannot be told. */
static enum read_status has_blocks(const struct source *source, const char *name, struct error *error)
{
  struct reader reader;
  enum read_status status = reader_open(&reader, source->dir, name, NULL, error);
  if (status == READ_DAMAGED)
    status = reader_open_headless(&reader, source->dir, name, NULL, error);
  if (status != READ_OK)
    return status;
  status = reader_next_marker(&reader, error);
  reader_close(&reader);
  return status;
}

/* The files of the type that are not in its chain, as text. */
static const char *orphan_names(const struct source *source, char *text, size_t size)
{
  const struct chain *chain = &source->chain;
  snprintf(text, size, "%s%s", chain->orphan_count > 0 ? chain->orphans[0] : "none", chain->orphan_count > 1 ? " and others" : "");
  return text;
}

/* No error, and no segment in the chain. */
static void verdict_empty(struct verdict *verdict, const struct source *source, const struct dump *dump)
{
  const struct chain *chain = &source->chain;
  const char *db = config_db_name(dump->config);
  char names[FILE_NAME_SIZE + 16];
  enum read_status looked = READ_END;
  for (size_t i = 0; i < chain->orphan_count && looked != READ_OK && looked != READ_FAILED; i++)
    looked = has_blocks(source, chain->orphans[i], &verdict->why);
  if (source->has_ledger && looked == READ_FAILED) {
    verdict->finding = FOUND_UNREADABLE;
    return;
  }
  bool blocks = looked == READ_OK;
  orphan_names(source, names, sizeof names);
  verdict->finding = source->foreign ? FOUND_FOREIGN : source->has_ledger && blocks ? FOUND_UNKNOWN : FOUND_ABSENT;
  if (source->foreign)
    error_set(&verdict->why, "%s/%s: it does not begin with the header of one", source->dir, names);
  else if (source->has_ledger && blocks)
    error_set(&verdict->why, "the ledger of type %s in database %s names no file, and %s holds %s", source->type, db, source->dir, names);
  else if (source->has_ledger)
    error_set(&verdict->why, "nothing to verify: the ledger of type %s in database %s names no file, and %s holds none with blocks",
              source->type, db, source->dir);
  else if (chain->orphan_count > 0)
    error_set(&verdict->why, "nothing to verify: %s holds no whole segment of type %s, only %s", source->dir, source->type, names);
  else
    error_set(&verdict->why, "nothing to verify: %s holds no segment of type %s", source->dir, source->type);
}

/* Not even the newest segment could be opened. */
static void verdict_unopened(struct verdict *verdict, const struct source *source, const struct dump *dump)
{
  const struct ledger_answer *ledger = &source->ledger;
  if (source->foreign)
    verdict->finding = FOUND_FOREIGN;
  else if (!source->single && source->has_ledger && ledger->end.file[0] != 0 && !is_there(source, ledger->end.file)) {
    verdict->finding = FOUND_MISSING;
    error_set(&verdict->why, "the ledger of type %s in database %s names %s with %" PRId64 " document%s, and it is not in %s", source->type,
              config_db_name(dump->config), ledger->end.file, ledger->end.seq, plural(ledger->end.seq), source->dir);
  }
}

/* The chain itself is broken: what should be before (or in place of) its oldest segment is lost. */
static void verdict_loaded(struct verdict *verdict, const struct source *source, const struct dump *dump, enum read_status loaded,
                           const struct error *error)
{
  static const enum finding of_status[] = {
      [READ_OK] = FOUND_OK,
      [READ_END] = FOUND_OK,
      [READ_TAIL] = FOUND_OK,
      [READ_DAMAGED] = FOUND_DAMAGED,
      [READ_NEWER] = FOUND_NEWER,
      [READ_ABSENT] = FOUND_UNREADABLE,
      [READ_FAILED] = FOUND_UNREADABLE,
  };
  verdict_stop(verdict, of_status[loaded], error);
  if (loaded == READ_OK && source->chain.count == 0)
    verdict_empty(verdict, source, dump);
  else if (loaded == READ_OK && source->unknown) {
    verdict->finding = FOUND_UNKNOWN;
    error_set(&verdict->why, "the ledger of type %s in database %s does not lead to this file", source->type, config_db_name(dump->config));
  } else if (loaded == READ_DAMAGED && source->chain.count == 0)
    verdict_unopened(verdict, source, dump);
  if (verdict->finding == FOUND_DAMAGED) {
    source_say_damage(source, error);
    verdict_damage(verdict, 1, source_lost(source));
  }
}

/* All that the ledger counts as committed is correct. Checks whether more was committed. */
static void verdict_stale(struct verdict *verdict, const struct source *source, const struct dump *dump)
{
  struct error why;
  switch (stale_check(source, dump, &why)) {
  case STALE_NOT:
    return;
  case STALE_YES:
    verdict_stop(verdict, FOUND_STALE, &why);
    return;
  case STALE_FAILED:
    verdict_stop(verdict, FOUND_UNREADABLE, &why);
    return;
  }
}

void verify_source(struct dump *dump, const struct source *source, const char *name, enum read_status loaded, const struct error *error)
{
  struct verdict verdict = {.finding = FOUND_OK};
  struct deep deep, *checks = dump->config->deep ? &deep : NULL;
  verdict_loaded(&verdict, source, dump, loaded, error);
  if (checks != NULL && !deep_init(&deep, source->type)) {
    dump_say("%s: no memory for --deep", source->type);
    dump_note_exit(dump, DUMP_IO);
    return;
  }
  if (has_figures(verdict.finding))
    read_all(&verdict, source, checks);
  if (verdict.finding == FOUND_OK && checks != NULL && deep.wrong_type + deep.repeated > 0)
    verdict.finding = FOUND_DOUBTFUL;
  if (verdict.finding == FOUND_OK && source->has_ledger)
    verdict_stale(&verdict, source, dump);
  print_verdict(dump->out, source, name, &verdict, checks);
  dump_note_exit(dump, verdict_exit(dump, &verdict));
  if (checks != NULL)
    deep_deinit(&deep);
}

void verify_directory(struct dump *dump, bool there, const char *what)
{
  fprintf(dump->out, "%s: %s, %s\n", dump->config->dir, findings[there ? FOUND_ABSENT : FOUND_UNREADABLE].word, what);
  dump_note_exit(dump, DUMP_IO);
}
