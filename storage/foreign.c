#include "storage/foreign.h"
#include "storage/file.h"
#include "storage/format.h"

#include <inttypes.h>

enum { HALF = 8 };

void foreign_mark(uint8_t uuid[16], const uint8_t database[16])
{
  memcpy(uuid + HALF, database, HALF);
}

struct look {
  const char *dir, *type;
  const uint8_t *uuid;
  enum foreign_status status;
  struct error *error;
};

/* *whole: it has a whole header. A file that is gone again has none. */
static enum file_status header_read(const char *dir, const char *name, struct segment_header *header, bool *whole, struct error *error)
{
  uint8_t bytes[FORMAT_HEADER_BYTES];
  struct file file;
  struct error ignored;
  size_t got = 0;
  *whole = false;
  enum file_status status = file_open(&file, dir, name, FILE_READ, 0, error);
  if (status != FILE_OK)
    return status == FILE_ABSENT ? FILE_OK : status;
  status = file_read(&file, 0, bytes, sizeof bytes, &got, error);
  *whole = status == FILE_OK && got == sizeof bytes && format_header_decode(bytes, header, &ignored) == FORMAT_OK;
  return file_close(&file, status == FILE_OK ? error : &ignored) == FILE_OK ? status : FILE_FAILED;
}

static void look_at(void *context, const char *name)
{
  struct look *look = context;
  struct segment_header header;
  int64_t epoch;
  bool whole;
  if (look->status != FOREIGN_NONE || !segment_name_is(name, look->type, &epoch))
    return;
  if (header_read(look->dir, name, &header, &whole, look->error) != FILE_OK)
    look->status = FOREIGN_FAILED;
  if (look->status != FOREIGN_NONE || !whole || memcmp(header.uuid + HALF, look->uuid + HALF, HALF) == 0)
    return;
  look->status = FOREIGN_FOUND;
  error_set(look->error,
            "%s/%s was made by %s, pid %" PRId64 ", for the ledger of another database (or by an older pawl that died at that moment: then "
            "remove it): one type is served from two databases",
            path_show(look->dir).text, name, header.writer.host, header.writer.pid);
}

enum foreign_status foreign_look(const char *dir, const char *type, const uint8_t uuid[16], struct error *error)
{
  struct look look = {.dir = dir, .type = type, .uuid = uuid, .status = FOREIGN_NONE, .error = error};
  if (file_list(dir, look_at, &look, error) != FILE_OK)
    return FOREIGN_FAILED;
  return look.status;
}
