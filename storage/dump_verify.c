#include "storage/dump_verify.h"
#include "storage/dump_deep.h"
#include "storage/dump_survey.h"

#include <inttypes.h>
#include <stdlib.h>

struct verdict {
  enum read_status status; /* READ_OK, READ_DAMAGED, READ_NEWER or READ_FAILED */
  struct error why;        /* of the last two */
  struct totals totals;
  int64_t bytes; /* of headers and blocks */
  uint64_t link; /* of the last block: what the next one will carry */
  size_t damages;
  int64_t lost;      /* messages known to be gone */
  bool lost_unknown; /* and perhaps more */
  int64_t unconfirmed;
  bool torn;
};

static void verdict_damage(struct verdict *verdict, int64_t lost_first, int64_t lost_last)
{
  verdict->status = READ_DAMAGED;
  verdict->damages++;
  verdict->lost_unknown = verdict->lost_unknown || lost_last < 0;
  if (lost_last >= lost_first && __builtin_add_overflow(verdict->lost, lost_last - lost_first + 1, &verdict->lost))
    verdict->lost = INT64_MAX;
}

/* At the end of a walk: the last block, and whether it is known to be committed. */
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

static void verdict_stop(struct verdict *verdict, enum read_status status, const struct error *why)
{
  verdict->status = status;
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
        deep_look(deep, walk_block(&walk), walk.at.reader.messages, walk.at.reader.messages_bytes);
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
      verdict_stop(verdict, READ_NEWER, &walk.error);
      reading = false;
      break;
    case WALK_FAILED:
      verdict_stop(verdict, READ_FAILED, &walk.error);
      reading = false;
      break;
    }
  }
  walk_deinit(&walk);
  verdict->bytes = totals_file_bytes(&verdict->totals, source->chain.count);
}

static const char *verdict_word(const struct verdict *verdict, const struct deep *deep)
{
  if (verdict->status == READ_DAMAGED)
    return "damaged";
  if (deep != NULL && deep->wrong_type + deep->repeated > 0)
    return "doubtful";
  return "ok";
}

static void print_damage(FILE *out, const struct verdict *verdict, size_t segments)
{
  if (verdict->status != READ_DAMAGED)
    return;
  if (segments == 0) {
    fputs(", none of its messages can be reached", out);
    return;
  }
  fprintf(out, ", damaged in %zu place%s, %s%" PRId64 " message%s gone", verdict->damages, plural((int64_t)verdict->damages),
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
  if (deep->wrong_items > 0)
    fprintf(out, ", items miscounted in %" PRId64 " block%s", deep->wrong_items, plural(deep->wrong_items));
}

static void print_verdict(FILE *out, const struct source *source, const char *name, const struct verdict *verdict, const struct deep *deep)
{
  char size[SIZE_TEXT_SIZE];
  const struct totals *totals = &verdict->totals;
  if (verdict->status == READ_NEWER || verdict->status == READ_FAILED) {
    fprintf(out, "%s: %s, %s\n", name, verdict->status == READ_NEWER ? "newer" : "unreadable", verdict->why.text);
    return;
  }
  size_t segments = source->chain.count;
  fprintf(out, "%s: %s, %zu segment%s, %" PRId64 " block%s, %" PRId64 " message%s", name, verdict_word(verdict, deep), segments,
          plural((int64_t)segments), totals->blocks, plural(totals->blocks), totals->messages, plural(totals->messages));
  if (totals->items != totals->messages)
    fprintf(out, ", %" PRId64 " item%s", totals->items, plural(totals->items));
  fprintf(out, ", %s, link %016" PRIx64, size_text(verdict->bytes, size), verdict->link);
  print_damage(out, verdict, segments);
  print_deep(out, deep);
  if (verdict->unconfirmed > 0)
    fprintf(out, ", the last %" PRId64 " unconfirmed", verdict->unconfirmed);
  fputs(verdict->torn ? ", then an uncommitted tail\n" : "\n", out);
}

static enum dump_exit verdict_exit(const struct dump *dump, const struct verdict *verdict, const struct deep *deep)
{
  if (verdict->status == READ_NEWER)
    return DUMP_NEWER;
  if (verdict->status == READ_FAILED)
    return DUMP_IO;
  if (strcmp(verdict_word(verdict, deep), "ok") != 0)
    return DUMP_DAMAGED;
  return dump->config->strict && verdict->unconfirmed > 0 ? DUMP_UNCONFIRMED : DUMP_FINE;
}

/* The chain itself is broken: what should lie before (or in place of) its oldest segment is gone. */
static void verdict_loaded(struct verdict *verdict, const struct source *source, enum read_status loaded, const struct error *error)
{
  verdict->status = loaded == READ_ABSENT ? READ_FAILED : loaded;
  verdict->why = *error;
  if (loaded == READ_DAMAGED) {
    source_say_damage(source, error);
    verdict_damage(verdict, 1, source_lost(source));
  }
}

void verify_source(struct dump *dump, const struct source *source, const char *name, enum read_status loaded, const struct error *error)
{
  struct verdict verdict = {.status = READ_OK};
  struct deep deep, *looks = dump->config->deep ? &deep : NULL;
  verdict_loaded(&verdict, source, loaded, error);
  if (looks != NULL && !deep_init(&deep, source->type)) {
    dump_say("%s: no memory for --deep", source->type);
    dump_note_exit(dump, DUMP_IO);
    return;
  }
  if (verdict.status == READ_OK || verdict.status == READ_DAMAGED)
    read_all(&verdict, source, looks);
  print_verdict(dump->out, source, name, &verdict, looks);
  dump_note_exit(dump, verdict_exit(dump, &verdict, looks));
  if (looks != NULL)
    deep_deinit(&deep);
}
