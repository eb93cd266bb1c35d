#include "lockstore/document.h"
#include "lockstore/ledger.h"
#include "lockstore/store.h"

/* A document of `ledger`, read: what is not as it should be is refused, and the text says what was expected. */

/* What a document may hold, whoever wrote it. The numbers beside the epoch are below 2^62 in the file, so that sums of two do not overflow.
 */
#define NUMBER_MAX (((int64_t)1 << 62) - 1)

static bool wrong(struct error *error, const bson_t *document, const char *field, const char *expected)
{
  error_set(error, "the ledger of %s cannot be used: %s is %s, expected %s", document_show(document, "_id").text, field,
            document_show(document, field).text, expected);
  return false;
}

static bool parse_number(const bson_t *document, const char *field, int64_t min, int64_t *value, struct error *error)
{
  if (document_int64(document, field, value) && *value >= min && *value <= NUMBER_MAX)
    return true;
  *value = 0;
  return wrong(error, document, field, min > 0 ? "a whole number above 0 and below 2^62" : "a whole number, not negative and below 2^62");
}

/* `T.bin` or `T@<epoch>.bin`, the epoch decimal without leading zeros, at most 18 digits. */
static bool file_name_of_type(const char *name, const char *type)
{
  size_t length = strlen(type);
  if (strncmp(name, type, length) != 0)
    return false;
  const char *rest = name + length;
  if (*rest == '@') {
    size_t digits = strspn(++rest, "0123456789");
    if (digits < 1 || digits > 18 || *rest == '0')
      return false;
    rest += digits;
  }
  return strcmp(rest, ".bin") == 0;
}

static bool zero_or_absent(const bson_t *document, const char *field)
{
  int64_t value;
  return !document_has(document, field) || (document_int64(document, field, &value) && value == 0);
}

static bool parse_no_file(const bson_t *document, struct error *error)
{
  static const char *const fields[] = {"uuid", "length", "tail", "link"};
  if (document_has(document, "file"))
    return wrong(error, document, "file", "the name of a segment of the type");
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (!zero_or_absent(document, fields[i]))
      return wrong(error, document, fields[i], "nothing, for there is no file");
  return true;
}

static bool parse_file(const bson_t *document, const char *type, struct committed *end, struct error *error)
{
  int64_t link;
  if (!document_text(document, "file", end->file, sizeof end->file))
    return parse_no_file(document, error);
  if (!file_name_of_type(end->file, type))
    return wrong(error, document, "file", "the name of a segment of the type");
  if (!document_binary(document, "uuid", end->uuid, sizeof end->uuid))
    return wrong(error, document, "uuid", "16 bytes of binary, subtype 0");
  if (!parse_number(document, "length", 1, &end->length, error) || !parse_number(document, "tail", 0, &end->tail, error))
    return false;
  if (end->tail >= end->length)
    return wrong(error, document, "tail", "a number below length");
  if (!document_int64(document, "link", &link))
    return wrong(error, document, "link", "a whole number");
  end->link = (uint64_t)link;
  return true;
}

/* Kept even when the rest is of no use: an adopted ledger must be above it. */
static bool parse_epoch(const bson_t *document, struct ledger *ledger, struct error *error)
{
  if (document_int64(document, "epoch", &ledger->epoch) && ledger->epoch >= 1 && ledger->epoch <= LEDGER_EPOCH_MAX)
    return true;
  ledger->epoch = 0;
  return wrong(error, document, "epoch", "a whole number above 0 and at most 2^59");
}

static bool parse_numbers(const bson_t *document, struct ledger *ledger, struct error *error)
{
  if (!parse_number(document, "seq", 0, &ledger->end.seq, error) || !parse_number(document, "items", 0, &ledger->end.items, error) ||
      !parse_number(document, "settled", 0, &ledger->settled, error))
    return false;
  if (ledger->settled > ledger->end.seq)
    return wrong(error, document, "settled", "a number not above seq");
  if (ledger->end.seq > 0 && ledger->end.file[0] == '\0')
    return wrong(error, document, "seq", "0, for there is no file");
  return true;
}

static bool parse_slots(const bson_t *document, struct ledger *ledger, struct error *error)
{
  int64_t slots = 0;
  bool ok = document_int64(document, "slots", &slots) && slots >= 2 && slots <= SLOTS_MAX && ledger->end.file[0] == '\0' && !ledger->own;
  ledger->slots = ok ? (int)slots : 0;
  return ok || wrong(error, document, "slots", "nothing, or, where there is no file, a number from 2 to 1000");
}

/* Above the epoch it would come true one day. */
static bool parse_guarded(const bson_t *document, struct ledger *ledger, struct error *error)
{
  if (document_int64(document, "guarded", &ledger->guarded) && ledger->guarded >= 1 && ledger->guarded <= ledger->epoch)
    return true;
  ledger->guarded = 0;
  return wrong(error, document, "guarded", "a whole number above 0 and not above epoch");
}

static bool is_being_made(const bson_t *document, int64_t *birth)
{
  int64_t epoch;
  return document_int64(document, "birth", birth) && *birth > 0 && document_int64(document, "epoch", &epoch) && epoch == 0;
}

static enum outcome newer(const char *type, struct ledger *ledger, struct error *error, const char *what)
{
  ledger->newer = true;
  error_set(error, "the ledger of \"%s\" %s: a newer pawl is needed", type, what);
  return OUTCOME_REFUSED;
}

/* v 2 is a ledger that an older pawl must leave alone; `needs` says why. */
static enum outcome parse_v(const bson_t *document, const char *type, struct ledger *ledger, struct error *error)
{
  int64_t v;
  char what[60];
  if (!document_int64(document, "v", &v) || v < 1) {
    wrong(error, document, "v", "1 or 2");
    return OUTCOME_REFUSED;
  }
  if (v == 2)
    return ledger_needs_parse(document, type, ledger, error);
  if (v == 1)
    return OUTCOME_YES;
  snprintf(what, sizeof what, "has v %lld and this pawl knows 1 and 2", (long long)v);
  return newer(type, ledger, error, what);
}

/* What is said to people may be cut. */
static void copy_text(const bson_t *document, const char *field, char *text, size_t size)
{
  bson_iter_t at;
  uint32_t bytes = 0;
  bool there = bson_iter_init_find(&at, document, field) && BSON_ITER_HOLDS_UTF8(&at);
  const char *value = there ? bson_iter_utf8(&at, &bytes) : NULL;
  snprintf(text, size, "%s", there && bson_utf8_validate(value, bytes, false) ? value : "?");
  document_make_printable(text);
}

static bool parse_pause(const bson_t *document, struct ledger_pause *pause, struct error *error)
{
  bson_t paused;
  if (!document_document(document, "paused", &paused) || !document_binary(&paused, "id", pause->id, sizeof pause->id))
    return wrong(error, document, "paused", "a document with an id of 16 bytes of binary, subtype 0");
  copy_text(&paused, "by", pause->by, sizeof pause->by);
  copy_text(&paused, "reason", pause->reason, sizeof pause->reason);
  if (!document_date(&paused, "at", &pause->at_ms))
    pause->at_ms = 0;
  return true;
}

static bool parse_from(const bson_t *document, struct ledger *ledger, struct error *error)
{
  char from[8];
  if (!document_has(document, "from"))
    return true;
  if (!ledger->own)
    return wrong(error, document, "from", "nothing, where `needs` does not name \"own\": an older pawl would not see it");
  if (document_text(document, "from", from, sizeof from) && (strcmp(from, "own") == 0 || strcmp(from, "both") == 0)) {
    ledger->from = from[0] == 'o' ? SOURCE_OWN : SOURCE_BOTH;
    return true;
  }
  return wrong(error, document, "from", "\"own\" or \"both\", or nothing");
}

static bool parse_move(const bson_t *document, struct ledger_move *move, struct error *error)
{
  bson_t moved;
  if (!document_document(document, "moved", &moved) || !document_binary(&moved, "id", move->id, sizeof move->id) ||
      !document_binary(&moved, "database", move->database, sizeof move->database))
    return wrong(error, document, "moved", "a document with an id and a database, each 16 bytes of binary, subtype 0");
  copy_text(&moved, "to", move->to, sizeof move->to);
  copy_text(&moved, "by", move->by, sizeof move->by);
  if (!document_date(&moved, "at", &move->at_ms))
    move->at_ms = 0;
  return true;
}

/* Both, or none: an older pawl would not see the one without the other. */
static bool parse_moved(const bson_t *document, struct ledger *ledger, struct error *error)
{
  bson_t carried;
  if (document_has(document, "moved") && !ledger->moved)
    return wrong(error, document, "moved", "nothing, where `needs` does not name it: an older pawl would not see it");
  if (ledger->moved && !parse_move(document, &ledger->move, error))
    return false;
  ledger->carried =
      document_document(document, "carried", &carried) && document_binary(&carried, "id", ledger->carried_id, sizeof ledger->carried_id);
  return true;
}

/* ---- the whole ---- */

enum outcome ledger_parse(const bson_t *document, const char *type, struct ledger *ledger, struct error *error)
{
  int64_t birth;
  *ledger = (struct ledger){0};
  enum outcome usable = parse_v(document, type, ledger, error);
  if (usable != OUTCOME_YES)
    return usable;
  if (is_being_made(document, &birth)) {
    *ledger = (struct ledger){.birth = birth};
    return OUTCOME_NO;
  }
  ledger->has_owner = document_binary(document, "owner", ledger->owner.bytes, OWNER_BYTES);
  bool ok =
      parse_epoch(document, ledger, error) && parse_file(document, type, &ledger->end, error) && parse_numbers(document, ledger, error);
  if (ok && !document_bool(document, "clean", &ledger->clean))
    ok = wrong(error, document, "clean", "true or false");
  if (ok && document_has(document, "guarded"))
    ok = parse_guarded(document, ledger, error);
  if (ok && document_has(document, "slots"))
    ok = parse_slots(document, ledger, error);
  if (ok && document_has(document, "machine") && !document_text(document, "machine", ledger->machine, sizeof ledger->machine))
    ok = wrong(error, document, "machine", "a string of at most 63 bytes");
  ok = ok && parse_from(document, ledger, error);
  if (ok && document_has(document, "paused") && !ledger->paused)
    ok = wrong(error, document, "paused", "nothing, where `needs` does not name it: an older pawl would not see it");
  if (ok && ledger->paused)
    ok = parse_pause(document, &ledger->pause, error);
  ok = ok && parse_moved(document, ledger, error);
  ledger->paused = ledger->paused && ok;
  return ok ? OUTCOME_YES : OUTCOME_REFUSED;
}
