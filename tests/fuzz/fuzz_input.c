/*
 * input: what pawl-enqueue reads: lines, NDJSON or BSON. The first byte chooses the form, the allowed types, and whether the input is for
 * bundles; the rest is the file. Checked: reading ends, and each result is a valid message with its _id first and a valid type.
 */
#include "image.h"
#include "target.h"
#include "tools/enqueue/input.h"

#include <sys/mman.h>
#include <unistd.h>

static char names[2][TYPE_BYTES_MAX + 1] = {"t1", "t2"};
static int file = -1;

static void message_check(const bson_t *message, bool id_wanted, const struct input *input)
{
  bson_iter_t at;
  bson_error_t reason;
  uint32_t length = 0;
  CHECK(message->len <= MESSAGE_BYTES_MAX && bson_validate_with_error(message, BSON_VALIDATE_NONE, &reason));
  if (input->bare) {
    CHECK(!id_wanted && type_name_valid(input->type) && message->len + BUNDLE_AROUND <= MESSAGE_BYTES_MAX);
    return;
  }
  CHECK(bson_iter_init(&at, message) && bson_iter_next(&at));
  if (id_wanted)
    CHECK(strcmp(bson_iter_key(&at), "_id") == 0 && BSON_ITER_HOLDS_OID(&at) && bson_get_data(message)[4] == BSON_TYPE_OID);
  CHECK(bson_iter_init_find(&at, message, "_id") && bson_iter_init_find(&at, message, "type") && BSON_ITER_HOLDS_UTF8(&at));
  const char *type = bson_iter_utf8(&at, &length);
  CHECK(strlen(type) == length && type_name_valid(type));
  CHECK(input->types.count == 0 || strcmp(type, names[0]) == 0 || (input->types.count == 2 && strcmp(type, names[1]) == 0));
}

static void read_all(struct input *input, int64_t size)
{
  struct error error = {.text = ""};
  for (int64_t steps = 0;; steps++) {
    bson_t message;
    bool id_wanted = false;
    int64_t number = input->number;
    enum input_result result = input_next(input, &message, &id_wanted, &error);
    CHECK(steps <= size + 2 && result != INPUT_IDLE && input->offset <= size);
    if (result == INPUT_MESSAGE) {
      message_check(&message, id_wanted, input);
      bson_destroy(&message);
      CHECK(input->number > number);
    } else
      CHECK(result == INPUT_END || (error.text[0] != 0 && strchr(error.text, '\n') == NULL));
    if (result == INPUT_END || result == INPUT_BROKEN)
      return;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
  struct input input;
  if (size < 1)
    return 0;
  if (file < 0)
    file = memfd_create("input", MFD_CLOEXEC);
  CHECK(file >= 0 && ftruncate(file, 0) == 0 && lseek(file, 0, SEEK_SET) == 0);
  CHECK(size == 1 || write(file, bytes + 1, size - 1) == (ssize_t)(size - 1));
  CHECK(lseek(file, 0, SEEK_SET) == 0);
  enum input_form form = bytes[0] % 3;
  struct input_types types = {names, form == INPUT_LINES ? 1 : (size_t)(bytes[0] / 3 % 3)};
  input_init(&input, file, "input", form, types);
  input.bare = bytes[0] / 9 % 2;
  read_all(&input, (int64_t)size - 1);
  input_deinit(&input);
  return 0;
}
