/*
 * type_pattern.h: patterns of types, such as orders.*, where `*` is any run of characters, also none.
 *
 * Header only; libc only; every function may be called from any thread and none blocks.
 */
#ifndef PAWL_TYPE_PATTERN_H
#define PAWL_TYPE_PATTERN_H

#include "base.h"

static inline bool type_pattern_valid(const char *pattern)
{
  static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-*";
  size_t length = strlen(pattern);
  return length >= 1 && length <= TYPE_BYTES_MAX && strspn(pattern, allowed) == length && pattern[0] != '.' && pattern[0] != '-';
}

static inline bool type_pattern_is_plain(const char *pattern)
{
  return strchr(pattern, '*') == NULL;
}

/* In time of the product of both lengths at most, because anybody who may insert chooses the type. */
static inline bool type_pattern_matches(const char *pattern, const char *type)
{
  const char *star = NULL, *from = NULL; /* the last `*`, and where the run that it stands for ends so far */
  while (*type) {
    if (*pattern == '*') {
      star = pattern++;
      from = type;
    } else if (*pattern == *type) {
      pattern++;
      type++;
    } else if (star != NULL) {
      pattern = star + 1;
      type = ++from;
    } else {
      return false;
    }
  }
  return pattern[strspn(pattern, "*")] == '\0';
}

#endif
