/* Lists of types, and of patterns of types. */
#include "config/options.h"
#include "type_pattern.h"

#include <stddef.h>
#include <stdlib.h>

enum { TYPES_MAX_FOUND = 256 };

typedef char name_text[TYPE_BYTES_MAX + 1];

static void list_add(name_text *list, size_t *count, const char *name)
{
  for (size_t i = 0; i < *count; i++)
    if (strcmp(list[i], name) == 0)
      return;
  memcpy(list[(*count)++], name, strlen(name) + 1);
}

/* False: it is neither a type nor a pattern. */
static bool name_read(name_text name, const char *from, size_t length)
{
  if (length > TYPE_BYTES_MAX)
    return false;
  memcpy(name, from, length);
  name[length] = '\0';
  return type_pattern_is_plain(name) ? type_name_valid(name) : type_pattern_valid(name);
}

static void name_add(struct config *config, const struct option_row *row, const char *name)
{
  if (row->offset == offsetof(struct config, excepts))
    list_add(config->excepts, &config->except_count, name);
  else if (type_pattern_is_plain(name))
    list_add(config->types, &config->type_count, name);
  else
    list_add(config->patterns, &config->pattern_count, name);
}

/* The next name of a comma list; *at goes on, and is NULL after the last. */
static const char *name_next(const char **at, size_t *length)
{
  const char *name = *at + strspn(*at, " \t");
  *length = strcspn(name, ",");
  *at = name[*length] == ',' ? name + *length + 1 : NULL;
  while (*length > 0 && (name[*length - 1] == ' ' || name[*length - 1] == '\t'))
    --*length;
  return name;
}

const char *types_wrong(const char *text, size_t *length)
{
  while (text != NULL) {
    name_text name;
    const char *from = name_next(&text, length);
    if (!name_read(name, from, *length))
      return from;
  }
  return NULL;
}

static name_text *list_new(struct config *config, size_t count)
{
  return (name_text *)config_keep(config, calloc(count, sizeof(name_text)));
}

bool types_store(struct config *config, const struct option_row *row, const char *text)
{
  size_t count = 1;
  for (const char *at = text; *at; at++)
    count += *at == ',';
  if (row->offset == offsetof(struct config, excepts)) {
    config->excepts = list_new(config, count);
  } else {
    config->types = list_new(config, count);
    config->patterns = list_new(config, count);
  }
  while (text != NULL) {
    name_text name;
    size_t length;
    const char *from = name_next(&text, &length);
    if (!name_read(name, from, length))
      return false;
    name_add(config, row, name);
  }
  return true;
}

static bool list_same(name_text *left, size_t left_count, name_text *right, size_t right_count)
{
  bool same = left_count == right_count;
  for (size_t i = 0; same && i < left_count; i++)
    same = strcmp(left[i], right[i]) == 0;
  return same;
}

bool types_same(const struct config *left, const struct config *right, const struct option_row *row)
{
  if (row->offset == offsetof(struct config, excepts))
    return list_same(left->excepts, left->except_count, right->excepts, right->except_count);
  return list_same(left->types, left->type_count, right->types, right->type_count) &&
         list_same(left->patterns, left->pattern_count, right->patterns, right->pattern_count);
}

/*
 * A pattern in what all programs share is meant for the workers. Which types it stands for the others do not know: they do as without
 * --type, so that nothing is left out.
 */
bool types_resolve(struct config *config, struct error *error)
{
  int index = option_find(config->program, "type");
  if (config->program == CONFIG_WORKER || index < 0 || config->pattern_count == 0)
    return true;
  struct config_setting *setting = &config->settings[index];
  if (setting->source == SOURCE_FLAG) {
    error_set(error, "--type: got \"%s\": takes names of types; only pawl-worker takes patterns", config->patterns[0]);
    return false;
  }
  *setting = (struct config_setting){0};
  config->type_count = config->pattern_count = 0;
  return true;
}

/* ---- pawl-worker ---- */

/* What matches the text of a pattern matches all that the pattern finds. */
static bool is_excepted(const struct config *config, const char *pattern)
{
  for (size_t i = 0; i < config->except_count; i++)
    if (type_pattern_matches(config->excepts[i], pattern))
      return true;
  return false;
}

static bool patterns_left_check(const struct config *config, struct error *error)
{
  for (size_t i = 0; i < config->pattern_count; i++)
    if (!is_excepted(config, config->patterns[i]))
      return true;
  if (config->type_count > 0)
    return true;
  error_set(error, "--except: got \"%s\", and nothing is left of --type \"%s\": takes a part of what that finds", config->excepts[0],
            config->patterns[0]);
  return false;
}

static bool excepts_check(const struct config *config, struct error *error)
{
  for (size_t i = 0; i < config->except_count; i++)
    for (size_t type = 0; type < config->type_count; type++)
      if (type_pattern_matches(config->excepts[i], config->types[type])) {
        error_set(error, "--except: got \"%s\", and --type lists \"%s\": takes only what --type does not name", config->excepts[i],
                  config->types[type]);
        return false;
      }
  if (config->except_count > 0 && config->pattern_count > 0)
    return patterns_left_check(config, error);
  if (config->except_count == 0)
    return true;
  error_set(error,
            "--except: got \"%s\", and no --type with a *: takes types that a pattern of --type would find, e.g. --type 'orders.*' "
            "--except 'orders.test*'",
            config->excepts[0]);
  return false;
}

/* A pattern may find any number of types, and each that is held needs memory, threads and connections. */
static void max_derive(struct config *config)
{
  struct config_setting *setting = &config->settings[option_find(CONFIG_WORKER, "types-max")];
  config->types_max_counts_named = config->types_max > 0;
  if (config->types_max > 0 || config->pattern_count == 0)
    return;
  char text[24];
  snprintf(text, sizeof text, "%d", TYPES_MAX_FOUND);
  config->types_max = TYPES_MAX_FOUND;
  setting->value = config_keep(config, strdup(text));
  setting->origin = config_keep(config, strdup("default with a pattern"));
}

bool worker_types_derive(struct config *config, struct error *error)
{
  max_derive(config);
  if (config->type_count == 0 && config->pattern_count == 0 && !config->health) {
    error_set(error, "--type: got none: takes at least one type, e.g. --type t1, or a pattern, e.g. --type 'orders.*' (or PAWL_TYPE=t1, or "
                     "`type = t1` in the --config file)");
    return false;
  }
  return excepts_check(config, error);
}
