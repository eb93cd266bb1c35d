/* What is different between two configurations of one program: for a program that reads its configuration again. */
#include "config/options.h"

#include <strings.h>

static const void *field(const struct config *config, const struct option_row *row)
{
  return (const char *)config + row->offset;
}

static bool text_same(const char *left, const char *right)
{
  return left == NULL || right == NULL ? left == right : strcmp(left, right) == 0;
}

static bool address_same(const struct config_address *left, const struct config_address *right)
{
  return left->port == right->port && text_same(left->host, right->host);
}

/* By the value: 30s and 30000ms are the same. */
static bool value_same(const struct config *left, const struct config *right, const struct option_row *row)
{
  const void *a = field(left, row), *b = field(right, row);
  switch (row->kind) {
  case OPTION_DURATION:
  case OPTION_BYTES:
  case OPTION_COUNT:
    return memcmp(a, b, sizeof(int64_t)) == 0;
  case OPTION_MODE:
  case OPTION_ENUM:
    return memcmp(a, b, sizeof(unsigned)) == 0;
  case OPTION_BOOL:
    return *(const bool *)a == *(const bool *)b;
  case OPTION_ADDRESS:
    return address_same(a, b);
  case OPTION_TYPES:
    return types_same(left, right, row);
  case OPTION_DB: /* without --db the URI names it */
    return strcmp(config_db_name(left), config_db_name(right)) == 0;
  case OPTION_TEXT:
  case OPTION_NAME:
  case OPTION_URI:
  case OPTION_SEPARATOR:
  case OPTION_TIME:
  case OPTION_WORD:
    return text_same(*(const char *const *)a, *(const char *const *)b);
  case OPTION_FILE: /* what is in it counts */
  case OPTION_ACTION:
    return true;
  }
  return true;
}

static void value_show(const struct config *config, int index, char *text, size_t size)
{
  const char *value = config->settings[index].value;
  if (config_options[index].kind == OPTION_URI && value != NULL)
    config_uri_redact(value, text, size);
  else
    config_quote(value != NULL ? value : "none", text, size);
}

void config_compare(const struct config *before, const struct config *now, config_difference *each, void *context)
{
  for (int i = 0; config_options[i].flag; i++) {
    char was[CONFIG_VALUE_SIZE], is[CONFIG_VALUE_SIZE];
    if (!option_taken(&config_options[i], now->program) || value_same(before, now, &config_options[i]))
      continue;
    value_show(before, i, was, sizeof was);
    value_show(now, i, is, sizeof is);
    each(context, config_options[i].flag, was, is);
  }
}
