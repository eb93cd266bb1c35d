/*
 * type_rules: which types a worker with patterns finds; and lists of types. Pure; any thread.
 */
#ifndef PAWL_WORKER_TYPE_RULES_H
#define PAWL_WORKER_TYPE_RULES_H

#include "base.h"

typedef char type_name[TYPE_BYTES_MAX + 1];

/* All lists are borrowed for as long as the rules are used. */
struct type_rules {
  const type_name *patterns; /* type_pattern.h; a plain name is one, too */
  size_t pattern_count;
  const type_name *excepts; /* patterns of those that are left out */
  size_t except_count;
  const type_name *named; /* types that are served by their names, and not found */
  size_t named_count;
};

/* Whether it is the name of a type, and to be found. Anybody who may insert chooses it. */
bool type_rules_find(const struct type_rules *rules, const char *type);
/* The same, with the types that are named. */
bool type_rules_serve(const struct type_rules *rules, const char *type);
/* Every type that is served lies in [from, before), by its bytes; before[0] is NUL: there is no end. */
void type_rules_range(const struct type_rules *rules, type_name from, type_name before);

/* The same for rules with the same patterns; in any order. */
uint64_t type_rules_hash(const struct type_rules *rules);

/* Types in [from, before); before[0] is NUL: to the end. One byte longer than a type: after one there is a place before all others. */
struct type_range {
  char from[TYPE_BYTES_MAX + 2], before[TYPE_BYTES_MAX + 2];
};
bool type_range_has(const struct type_range *range, const char *type);
/* Leaves what is in both. */
void type_range_cut(struct type_range *range, const struct type_range *other);

/* A list of types in a memory of its own. */
struct type_list {
  type_name *names;
  size_t count, room;
};
/* False: no memory. */
MUST_CHECK bool type_list_add(struct type_list *list, const char *type);
void type_list_clear(struct type_list *list); /* keeps the memory */
void type_list_free(struct type_list *list);
void type_list_sort(struct type_list *list);
/* Of a sorted list. */
bool type_list_has(const struct type_list *list, const char *type);
/* The place of the first name after this one; `count` if there is none. */
size_t type_list_after(const struct type_list *list, const char *type);

#endif
