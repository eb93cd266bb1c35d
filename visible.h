/*
 * visible.h: which characters may reach a terminal, and texts of those: the name of a process (--name), a reason (--reason).
 *
 * Header only; libc only; every function may be called from any thread and none blocks.
 */
#ifndef PAWL_VISIBLE_H
#define PAWL_VISIBLE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { PROCESS_NAME_BYTES_MAX = 64 };

/* Reads one character of UTF-8, in its shortest form. Returns its bytes; 0: it is none. */
static inline int visible_character(const unsigned char *at, uint32_t *character)
{
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  int bytes = at[0] < 0x80 ? 1 : at[0] < 0xc0 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf8 ? 4 : 0;
  *character = bytes == 1 ? at[0] : at[0] & (0xffu >> (bytes + 1));
  for (int i = 1; i < bytes; i++) {
    if ((at[i] & 0xc0) != 0x80)
      return 0;
    *character = *character << 6 | (at[i] & 0x3f);
  }
  bool surrogate = *character >= 0xd800 && *character < 0xe000;
  return bytes == 0 || *character < least[bytes] || *character > 0x10ffff || surrogate ? 0 : bytes;
}

/* Terminals and browsers obey these, or show nothing: controls, separators of lines, and marks of width 0 or of direction. */
static inline bool visible_not(uint32_t character)
{
  static const struct {
    uint32_t from, to;
  } ranges[] = {{0, 0x1f},        {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e},  {0x200b, 0x200f},
                {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (character >= ranges[i].from && character <= ranges[i].to)
      return true;
  return false;
}

/* UTF-8, each character visible, or a blank in between: the same where an operator gives a reason. */
static inline bool visible_text(const char *name, size_t bytes_max)
{
  size_t length = strlen(name);
  if (length < 1 || length > bytes_max || name[0] == ' ' || name[length - 1] == ' ')
    return false;
  for (const unsigned char *at = (const unsigned char *)name; *at;) {
    uint32_t character;
    int bytes = visible_character(at, &character);
    if (bytes == 0 || visible_not(character))
      return false;
    at += bytes;
  }
  return true;
}

/* 1 to 64 bytes of that. */
static inline bool process_name_valid(const char *name)
{
  return visible_text(name, PROCESS_NAME_BYTES_MAX);
}

#endif
