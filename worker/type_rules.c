#include "worker/type_rules.h"
#include "type_pattern.h"

#include <stdlib.h>

static bool any_matches(const type_name *patterns, size_t count, const char *type)
{
  for (size_t i = 0; i < count; i++)
    if (type_pattern_matches(patterns[i], type))
      return true;
  return false;
}

static bool is_named(const struct type_rules *rules, const char *type)
{
  for (size_t i = 0; i < rules->named_count; i++)
    if (strcmp(rules->named[i], type) == 0)
      return true;
  return false;
}

bool type_rules_find(const struct type_rules *rules, const char *type)
{
  return type_name_valid(type) && any_matches(rules->patterns, rules->pattern_count, type) &&
         !any_matches(rules->excepts, rules->except_count, type) && !is_named(rules, type);
}

bool type_rules_serve(const struct type_rules *rules, const char *type)
{
  return is_named(rules, type) || type_rules_find(rules, type);
}

/* ---- the range ---- */

/* What every name that matches begins with; of a name without a `*` the next bytes are a NUL. */
static void range_widen(const char *pattern, type_name from, type_name before, bool first, bool *endless)
{
  type_name low, high;
  size_t length = strcspn(pattern, "*");
  memcpy(low, pattern, length);
  low[length] = '\0';
  memcpy(high, low, sizeof low);
  if (length == 0)
    *endless = true;
  else
    high[length - 1]++; /* all of them are ASCII, so it is still one */
  if (first || strcmp(low, from) < 0)
    memcpy(from, low, sizeof low);
  if (first || strcmp(high, before) > 0)
    memcpy(before, high, sizeof high);
}

void type_rules_range(const struct type_rules *rules, type_name from, type_name before)
{
  bool endless = false, first = true;
  from[0] = before[0] = '\0';
  for (size_t i = 0; i < rules->pattern_count; i++, first = false)
    range_widen(rules->patterns[i], from, before, first, &endless);
  for (size_t i = 0; i < rules->named_count; i++, first = false)
    range_widen(rules->named[i], from, before, first, &endless);
  if (endless)
    before[0] = '\0';
}

bool type_range_has(const struct type_range *range, const char *type)
{
  return strcmp(type, range->from) >= 0 && (range->before[0] == '\0' || strcmp(type, range->before) < 0);
}

void type_range_cut(struct type_range *range, const struct type_range *other)
{
  if (strcmp(other->from, range->from) > 0)
    memcpy(range->from, other->from, sizeof range->from);
  if (other->before[0] != '\0' && (range->before[0] == '\0' || strcmp(other->before, range->before) < 0))
    memcpy(range->before, other->before, sizeof range->before);
}

/* FNV-1a of each. */
static uint64_t hash_of(uint64_t salt, const type_name *patterns, size_t count)
{
  uint64_t sum = 0;
  for (size_t i = 0; i < count; i++) {
    uint64_t hash = 0xcbf29ce484222325u ^ salt;
    for (const char *at = patterns[i]; *at; at++)
      hash = (hash ^ (uint8_t)*at) * 0x100000001b3u;
    sum += hash;
  }
  return sum;
}

uint64_t type_rules_hash(const struct type_rules *rules)
{
  return hash_of(1, rules->patterns, rules->pattern_count) ^ hash_of(2, rules->excepts, rules->except_count);
}

/* ---- lists ---- */

bool type_list_add(struct type_list *list, const char *type)
{
  if (list->count == list->room) {
    size_t room = list->room > 0 ? 2 * list->room : 16;
    type_name *names = realloc(list->names, room * sizeof *names);
    if (names == NULL)
      return false;
    list->names = names;
    list->room = room;
  }
  snprintf(list->names[list->count++], sizeof *list->names, "%s", type);
  return true;
}

void type_list_clear(struct type_list *list)
{
  list->count = 0;
}

void type_list_free(struct type_list *list)
{
  free(list->names);
  *list = (struct type_list){.count = 0};
}

static int compare(const void *left, const void *right)
{
  return strcmp(left, right);
}

void type_list_sort(struct type_list *list)
{
  if (list->count > 1)
    qsort(list->names, list->count, sizeof *list->names, compare);
}

bool type_list_has(const struct type_list *list, const char *type)
{
  return list->count > 0 && bsearch(type, list->names, list->count, sizeof *list->names, compare) != NULL;
}

size_t type_list_after(const struct type_list *list, const char *type)
{
  size_t low = 0, high = list->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(list->names[middle], type) > 0)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}
