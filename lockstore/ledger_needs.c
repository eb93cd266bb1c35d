#include "bson_array.h"
#include "lockstore/document.h"
#include "lockstore/store.h"

#include <stddef.h>

/*
 * What a ledger needs a pawl to know. A word makes it v 2, which an older pawl leaves alone; a newer pawl's word does so with this one.
 * *As a plain field beside v 1* an older pawl works on as if it were not there.
 */

enum for_whom { FOR_NOBODY, FOR_TOOLS, FOR_WORKERS }; /* who may fence a ledger that needs it; tools may where workers may */

static const struct need {
  const char *word;
  enum for_whom whom;
  size_t flag;
} needs[] = {
    {LEDGER_NEED_OWN, FOR_WORKERS, offsetof(struct ledger, own)},
    {LEDGER_NEED_PAUSED, FOR_TOOLS, offsetof(struct ledger, paused)},
    {LEDGER_NEED_MOVED, FOR_NOBODY, offsetof(struct ledger, moved)},
};
enum { NEEDS = sizeof needs / sizeof *needs };

static bool *flag_of(struct ledger *ledger, const struct need *need)
{
  return (bool *)((char *)ledger + need->flag);
}

static bool has(const struct ledger *ledger, const struct need *need)
{
  return *(const bool *)((const char *)ledger + need->flag);
}

/* ---- reading ---- */

static const struct need *need_find(const bson_iter_t *word)
{
  for (size_t i = 0; i < NEEDS && BSON_ITER_HOLDS_UTF8(word); i++)
    if (strcmp(bson_iter_utf8(word, NULL), needs[i].word) == 0)
      return &needs[i];
  return NULL;
}

static enum outcome unknown(const bson_t *document, const char *type, struct ledger *ledger, struct error *error)
{
  *ledger = (struct ledger){.newer = true};
  error_set(error, "the ledger of \"%s\" needs %s, which this pawl does not know: a newer pawl is needed", type,
            document_show(document, "needs").text);
  return OUTCOME_REFUSED;
}

enum outcome ledger_needs_parse(const bson_t *document, const char *type, struct ledger *ledger, struct error *error)
{
  bson_iter_t at, in;
  bool any = false;
  if (bson_iter_init_find(&at, document, "needs") && BSON_ITER_HOLDS_ARRAY(&at) && bson_iter_recurse(&at, &in))
    for (; bson_iter_next(&in); any = true) {
      const struct need *need = need_find(&in);
      if (need == NULL)
        return unknown(document, type, ledger, error);
      *flag_of(ledger, need) = true;
    }
  if (any)
    return OUTCOME_YES;
  error_set(error, "the ledger of %s cannot be used: needs is %s, expected a list of what a pawl must know",
            document_show(document, "_id").text, document_show(document, "needs").text);
  return OUTCOME_REFUSED;
}

/* ---- filters and documents ---- */

enum pick { PICK_WORKERS, PICK_TOOLS, PICK_SET };

/* {FIELD: {…: {OPERATOR: [words]}}} needs the words; NULL: of no ledger. */
static int append_words(bson_t *to, const char *key, enum pick pick, const struct ledger *ledger)
{
  bson_t words;
  int count = 0;
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(to, key, &words);
  for (size_t i = 0; i < NEEDS; i++)
    if ((pick == PICK_TOOLS && needs[i].whom >= FOR_TOOLS) || (pick == PICK_WORKERS && needs[i].whom == FOR_WORKERS) ||
        (pick == PICK_SET && has(ledger, &needs[i]))) {
      char index[16];
      snprintf(index, sizeof index, "%d", count++);
      BSON_APPEND_UTF8(&words, index, needs[i].word);
    }
  bson_append_array_end(to, &words);
  return count;
}

/* {$not: {$elemMatch: {$nin: [words]}}}: no other word. */
static void append_no_other(bson_t *test, enum pick pick, const struct ledger *ledger)
{
  bson_t no, other;
  BSON_APPEND_DOCUMENT_BEGIN(test, "$not", &no);
  BSON_APPEND_DOCUMENT_BEGIN(&no, "$elemMatch", &other);
  append_words(&other, "$nin", pick, ledger);
  bson_append_document_end(&no, &other);
  bson_append_document_end(test, &no);
}

void ledger_needs_append_known(bson_t *filter, bool tool)
{
  bson_t test;
  BCON_APPEND(filter, "v", "{", "$in", "[", BCON_INT32(1), BCON_INT32(2), "]", "}");
  BSON_APPEND_DOCUMENT_BEGIN(filter, "needs", &test);
  append_no_other(&test, tool ? PICK_TOOLS : PICK_WORKERS, NULL);
  bson_append_document_end(filter, &test);
}

static int version_of(const struct ledger *ledger)
{
  for (size_t i = 0; i < NEEDS; i++)
    if (has(ledger, &needs[i]))
      return 2;
  return 1;
}

/* With v 1 `needs` says nothing. */
void ledger_needs_append_same(bson_t *filter, const struct ledger *ledger)
{
  bson_t test;
  int v = version_of(ledger);
  BSON_APPEND_INT32(filter, "v", v);
  if (v == 1)
    return;
  BSON_APPEND_DOCUMENT_BEGIN(filter, "needs", &test);
  append_words(&test, "$all", PICK_SET, ledger);
  append_no_other(&test, PICK_SET, ledger);
  bson_append_document_end(filter, &test);
}

void ledger_needs_append(bson_t *document, const struct ledger *ledger)
{
  int v = version_of(ledger);
  BSON_APPEND_INT32(document, "v", v);
  if (v == 2)
    append_words(document, "needs", PICK_SET, ledger);
}

/* ---- changes ---- */

/* The second stage: `$needs` is a list by then. */
void ledger_needs_append_change(bson_t *stages, int index, const char *word, bool add)
{
  char first[16], second[16];
  snprintf(first, sizeof first, "%d", index);
  snprintf(second, sizeof second, "%d", index + 1);
  BCON_APPEND(stages, first, "{", "$set", "{", "needs", "{", add ? "$setUnion" : "$setDifference", "[", "{", "$cond", "[", "{", "$isArray",
              BCON_UTF8("$needs"), "}", BCON_UTF8("$needs"), "[", "]", "]", "}", "[", BCON_UTF8(word), "]", "]", "}", "}", "}");
  BCON_APPEND(stages, second, "{", "$set", "{", "v", "{", "$cond", "[", "{", "$eq", "[", BCON_UTF8("$needs"), "[", "]", "]", "}",
              BCON_INT32(1), BCON_INT32(2), "]", "}", "needs", "{", "$cond", "[", "{", "$eq", "[", BCON_UTF8("$needs"), "[", "]", "]", "}",
              BCON_UTF8("$$REMOVE"), BCON_UTF8("$needs"), "]", "}", "}", "}");
}
