/*
 * base.h: what all modules of pawl share.
 *
 * Header only; libc only; every function may be called from any thread and none blocks.
 */
#ifndef PAWL_BASE_H
#define PAWL_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAWL_VERSION "0.1.0"

/* The result says whether the call succeeded: the caller must not ignore it. */
#define MUST_CHECK __attribute__((warn_unused_result))

/* Exit codes of all programs except pawl-dump, whose codes are in docs/format.md. */
enum exit_code {
  EXIT_DONE = 0,
  EXIT_FAILED = 1,       /* the program failed while it ran */
  EXIT_USAGE = 2,        /* wrong option, value or configuration; or the database cannot be used as it is, or a right is missing */
  EXIT_UNAVAILABLE = 69, /* MongoDB could not be reached, and waiting makes no sense */
  EXIT_UNTRUSTED = 74,   /* the storage cannot be trusted */
};

/*
 * An error as one line without a line feed: what was being done, to what, and what the system answered.
 * The caller owns it. A function that fails fills it; a function that succeeds leaves it unchanged. It never contains a password.
 */
struct error {
  char text[1024];
  enum error_reason {
    ERROR_OTHER,
    ERROR_ANSWERED, /* MongoDB answered with a refusal: the text is a complete sentence, and a person can fix the cause at the server */
    ERROR_LOGIN,    /* the same, because it does not accept the user or the password */
    ERROR_RIGHT,    /* the same, because the user lacks a right */
  } reason;
};

__attribute__((format(printf, 2, 3))) static inline void error_set(struct error *error, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
  error->reason = ERROR_OTHER;
}

/*
 * Copies `text` to `to`. Of a long text it copies the first `head` and the last `tail` bytes (fewer, to keep UTF-8 characters whole), with
 * "…" between them. `to` must have room for head + tail + sizeof "…" bytes, and must not be `text`.
 */
static inline void text_shorten(const char *text, size_t head, size_t tail, char *to)
{
  size_t length = strlen(text), rest = length - tail;
  if (length <= head + tail) {
    memcpy(to, text, length + 1);
    return;
  }
  while (head > 0 && ((unsigned char)text[head] & 0xC0) == 0x80)
    head--;
  while (((unsigned char)text[rest] & 0xC0) == 0x80)
    rest++;
  sprintf(to, "%.*s…%s", (int)head, text, text + rest);
}

/* A path in a message, shortened so that a long path does not cut off the rest of the message. */
enum { PATH_HEAD_MAX = 80, PATH_TAIL_MAX = 140 };
struct path_text {
  char text[PATH_HEAD_MAX + PATH_TAIL_MAX + sizeof "…"];
};

static inline struct path_text path_show(const char *path)
{
  struct path_text shown;
  text_shorten(path, PATH_HEAD_MAX, PATH_TAIL_MAX, shown.text);
  return shown;
}

/* "1 message", "2 messages": the ending of the noun. */
static inline const char *plural(int64_t count)
{
  return count == 1 ? "" : "s";
}

enum {
  TYPE_BYTES_MAX = 128,
  FILE_NAME_SIZE = TYPE_BYTES_MAX + sizeof "@18446744073709551615.bin", /* a segment's bare name and its NUL */
  MACHINE_SIZE = 64,                                                    /* a boot id and its NUL */
};

/* A type is 1..128 bytes of [A-Za-z0-9_.-], the first neither '.' nor '-': it is safe as part of a file name. */
static inline bool type_name_valid(const char *type)
{
  static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  size_t length = strlen(type);
  return length >= 1 && length <= TYPE_BYTES_MAX && strspn(type, allowed) == length && type[0] != '.' && type[0] != '-';
}

/*
 * A path to a field inside a document: keys with dots between them, none of them empty. It is valid as `length` bytes of `path`, which may
 * go on after them.
 */
enum { FIELD_PATH_BYTES_MAX = 256, FIELD_PATH_KEYS_MAX = 16 };
static inline bool field_path_valid(const char *path, size_t length)
{
  int keys = 1;
  if (length == 0 || length > FIELD_PATH_BYTES_MAX || path[0] == '.' || path[length - 1] == '.')
    return false;
  for (size_t i = 1; i < length; i++) {
    if (path[i] == '.' && path[i - 1] == '.')
      return false;
    keys += path[i] == '.';
  }
  return keys <= FIELD_PATH_KEYS_MAX;
}

/*
 * The committed end of a type: the ledger records it, and the file must agree with it. A plain value.
 * If there is no file yet, `file` is the empty string and everything else is 0.
 */
struct committed {
  char file[FILE_NAME_SIZE]; /* the current segment, a bare name */
  uint8_t uuid[16];          /* in its header */
  int64_t length;            /* bytes of the segment that are committed */
  int64_t tail;              /* offset of the last marker; 0: none */
  uint64_t link;             /* what the next marker must carry: header_crc << 32 | body_crc of the last block */
  int64_t seq;               /* of the type's last document; 0: none */
  int64_t items;             /* messages since the type began: a bundle counts as many as it holds */
};

/*
 * Zeroed memory for free(), with an alignment that calloc may not keep: a structure that holds a bson_t needs 128. NULL: no memory.
 */
static inline void *aligned_zeros(size_t alignment, size_t bytes)
{
  size_t room = (bytes + alignment - 1) / alignment * alignment;
  void *memory = aligned_alloc(alignment, room);
  return memory != NULL ? memset(memory, 0, room) : NULL;
}

#endif
