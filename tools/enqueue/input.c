#include "tools/enqueue/input.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
  READ_BYTES = 256 * 1024,
  JSON_BYTES_MAX = 4 * MESSAGE_BYTES_MAX, /* a document of 16 MiB may be much longer as text */
  IDLE_MS = 10,                           /* an input without new bytes for this long counts as idle */
  IDLE_AGAIN_MS = 500,                    /* how long one call waits for an idle input */
};

void input_init(struct input *input, int file, const char *name, enum input_form form, struct input_types types)
{
  *input = (struct input){.file = file, .name = name, .form = form, .types = types, .size = READ_BYTES};
  input->buffer = malloc(input->size);
  assert(input->buffer);
}

void input_deinit(struct input *input)
{
  free(input->buffer);
  input->buffer = NULL;
}

void input_place(const char *name, enum input_form form, int64_t number, int64_t offset, char *text, size_t size)
{
  if (form == INPUT_BSON)
    snprintf(text, size, "%.400s: document %lld at byte %lld", name, (long long)number, (long long)offset);
  else
    snprintf(text, size, "%.400s:%lld", name, (long long)number);
}

/* Puts the place before the text of the error. */
static enum input_result place_error(const struct input *input, enum input_result result, struct error *error)
{
  char place[500];
  struct error what = *error;
  input_place(input->name, input->form, input->number, input->offset, place, sizeof place);
  error_set(error, "%s: %.500s", place, what.text);
  return result;
}

/* ---- bytes ---- */

static void make_room(struct input *input)
{
  if (input->start > 0) {
    memmove(input->buffer, input->buffer + input->start, input->end - input->start);
    input->end -= input->start;
    input->start = 0;
  }
  if (input->size - input->end >= READ_BYTES / 2)
    return;
  input->size *= 2;
  input->buffer = realloc(input->buffer, input->size);
  assert(input->buffer);
}

static int patience_ms(const struct input *input)
{
  struct timespec now;
  if (input->idle)
    return IDLE_AGAIN_MS;
  if (input->idle_at_ms == 0)
    return IDLE_MS;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t left = input->idle_at_ms - ((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
  return left < 0 ? 0 : left > IDLE_MS ? IDLE_MS : (int)left;
}

/* INPUT_MESSAGE: more bytes are there, or `ended` is set. */
static enum input_result fill(struct input *input, struct error *error)
{
  struct pollfd ready = {.fd = input->file, .events = POLLIN};
  struct timespec patience = {.tv_nsec = patience_ms(input) * 1000000L};
  int polled = ppoll(&ready, 1, &patience, input->unblocked);
  input->idle = polled == 0;
  if (polled <= 0)
    return INPUT_IDLE;
  make_room(input);
  ssize_t length = read(input->file, input->buffer + input->end, input->size - input->end);
  if (length < 0 && (errno == EINTR || errno == EAGAIN))
    return INPUT_IDLE;
  if (length < 0) {
    error_set(error, "cannot be read: %s", strerror(errno));
    return place_error(input, INPUT_BROKEN, error);
  }
  input->ended = length == 0;
  input->end += (size_t)length;
  input->bytes_read += length;
  return INPUT_MESSAGE;
}

static void use(struct input *input, size_t length)
{
  input->start += length;
  input->offset += (int64_t)length;
}

/* ---- lines ---- */

/* Skips the rest of a line that is too long to hold, and reports it at the end of the line. */
static enum input_result line_skip(struct input *input, size_t max, struct error *error)
{
  for (;;) {
    uint8_t *begin = input->buffer + input->start, *found = memchr(begin, '\n', input->end - input->start);
    use(input, found ? (size_t)(found - begin) + 1 : input->end - input->start);
    if (found || input->ended) {
      input->skipping = false;
      error_set(error, "a line of more than %zu bytes", max);
      return INPUT_BAD;
    }
    enum input_result result = fill(input, error);
    if (result != INPUT_MESSAGE)
      return result;
  }
}

/* INPUT_MESSAGE: a whole line, without its line feed, is at `start`; `*feed` is 1 if a line feed follows. */
static enum input_result line_find(struct input *input, size_t *length, size_t *feed, struct error *error)
{
  size_t max = input->form == INPUT_LINES ? MESSAGE_BYTES_MAX : JSON_BYTES_MAX, seen = 0;
  while (!input->skipping) {
    uint8_t *begin = input->buffer + input->start;
    size_t have = input->end - input->start;
    uint8_t *found = memchr(begin + seen, '\n', have - seen);
    *length = found ? (size_t)(found - begin) : have;
    *feed = found != NULL;
    if (*length > max) {
      input->number++;
      input->skipping = true;
      break;
    }
    if (found || (input->ended && have > 0)) {
      input->number++;
      return INPUT_MESSAGE;
    }
    if (input->ended)
      return INPUT_END;
    seen = have;
    enum input_result result = fill(input, error);
    if (result != INPUT_MESSAGE)
      return result;
  }
  return line_skip(input, max, error);
}

static bool blank(const uint8_t *line, size_t length)
{
  for (size_t i = 0; i < length; i++)
    if (line[i] == 0 || !strchr(" \t\r", line[i]))
      return false;
  return true;
}

/* The levels of nesting that the bundle adds. */
static int around(const struct input *input)
{
  return input->bare ? BUNDLE_DEPTH : 0;
}

static bool take_document(struct input *input, const bson_t *document, bson_t *message, bool *id_wanted, struct error *error)
{
  return input->bare ? bare_from_document(document, &input->types, message, input->type, error)
                     : message_from_document(document, &input->types, message, id_wanted, error);
}

static bool take_line(struct input *input, const uint8_t *line, size_t length, bson_t *message, bool *id_wanted, struct error *error)
{
  const char *type = input->types.names[0];
  *id_wanted = !input->bare;
  snprintf(input->type, sizeof input->type, "%s", type);
  return message_from_line(line, length, input->bare ? NULL : type, message, error);
}

static bool json_message(struct input *input, const uint8_t *line, size_t length, bson_t *message, bool *id_wanted, struct error *error)
{
  bson_t document;
  if (!document_from_json(line, length, around(input), &document, error))
    return false;
  bool done = take_document(input, &document, message, id_wanted, error);
  bson_destroy(&document);
  return done;
}

static enum input_result line_next(struct input *input, bson_t *message, bool *id_wanted, struct error *error)
{
  size_t length, feed;
  enum input_result result;
  while ((result = line_find(input, &length, &feed, error)) == INPUT_MESSAGE) {
    const uint8_t *line = input->buffer + input->start;
    if (input->form == INPUT_LINES) {
      result = take_line(input, line, length, message, id_wanted, error) ? INPUT_MESSAGE : INPUT_BAD;
    } else if (blank(line, length)) {
      use(input, length + feed);
      continue;
    } else {
      result = json_message(input, line, length, message, id_wanted, error) ? INPUT_MESSAGE : INPUT_BAD;
    }
    if (result == INPUT_BAD)
      place_error(input, result, error);
    use(input, length + feed);
    return result;
  }
  return result == INPUT_BAD ? place_error(input, result, error) : result;
}

/* ---- BSON ---- */

/* INPUT_MESSAGE: `need` bytes are there. INPUT_END: the file ended before; `end - start` is the number of bytes that are there. */
static enum input_result need(struct input *input, size_t need, struct error *error)
{
  while (input->end - input->start < need) {
    if (input->ended)
      return INPUT_END;
    enum input_result result = fill(input, error);
    if (result != INPUT_MESSAGE)
      return result;
  }
  return INPUT_MESSAGE;
}

static enum input_result broken(struct input *input, const char *what, struct error *error)
{
  input->number++;
  error_set(error, "%s; the rest of the file is not used", what);
  return place_error(input, INPUT_BROKEN, error);
}

/* After an invalid length nothing further in the file can be found. */
static enum input_result bson_find(struct input *input, size_t *length, struct error *error)
{
  enum input_result result = need(input, 4, error);
  if (result == INPUT_END)
    return input->end == input->start ? INPUT_END : broken(input, "the file ends within a document", error);
  if (result != INPUT_MESSAGE)
    return result;
  const uint8_t *at = input->buffer + input->start;
  *length = at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
  if (*length < 5 || *length > 4 * (size_t)MESSAGE_BYTES_MAX)
    return broken(input, "no BSON document begins here", error);
  result = need(input, *length, error);
  if (result == INPUT_END)
    return broken(input, "the file ends within a document", error);
  if (result == INPUT_MESSAGE && input->buffer[input->start + *length - 1] != 0)
    return broken(input, "no BSON document begins here", error);
  return result;
}

static enum input_result bson_next(struct input *input, bson_t *message, bool *id_wanted, struct error *error)
{
  size_t length = 0;
  bson_t document;
  enum input_result result = bson_find(input, &length, error);
  if (result != INPUT_MESSAGE)
    return result;
  const uint8_t *bytes = input->buffer + input->start;
  input->number++;
  bool done = document_check(bytes, length, around(input), error) && bson_init_static(&document, bytes, length) &&
              take_document(input, &document, message, id_wanted, error);
  if (!done)
    place_error(input, INPUT_BAD, error);
  use(input, length);
  return done ? INPUT_MESSAGE : INPUT_BAD;
}

enum input_result input_next(struct input *input, bson_t *message, bool *id_wanted, struct error *error)
{
  return input->form == INPUT_BSON ? bson_next(input, message, id_wanted, error) : line_next(input, message, id_wanted, error);
}
