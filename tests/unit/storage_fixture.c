#include "storage_fixture.h"

struct holder holder;
struct reading reading;
struct error error;
struct block_marker blocks[BLOCKS_MAX];
bson_t documents[BLOCKS_MAX];
int block_count;

static void blocks_forget(void)
{
  for (int i = 0; i < block_count; i++)
    if (blocks[i].kind != BLOCK_DATA)
      bson_destroy(&documents[i]);
  block_count = 0;
}

int storage_begin(void **state)
{
  (void)state;
  memory_disk_reset();
  holder_init(&holder, "t1");
  return 0;
}

int storage_end(void **state)
{
  (void)state;
  blocks_forget();
  if (holder.writer.has_file)
    holder_drop(&holder);
  assert_int_equal(memory_disk_open_files(), 0);
  memory_disk_reset();
  return 0;
}

void first_segment(int messages)
{
  holder_create(&holder, "first");
  holder_append(&holder, messages);
}

uint8_t *sample(size_t *size)
{
  uint8_t *bytes = memory_disk_bytes(DIR, "t1.bin", size);
  assert_non_null(bytes);
  return bytes;
}

int64_t file_length(const char *name)
{
  size_t size = 0;
  assert_non_null(memory_disk_bytes(DIR, name, &size));
  return (int64_t)size;
}

bool exists(const char *name)
{
  return memory_disk_bytes(DIR, name, &(size_t){0}) != NULL;
}

void blocks_list(const char *name, const struct committed *end)
{
  struct reader reader;
  blocks_forget();
  assert_int_equal(reader_open(&reader, DIR, name, end, &error), READ_OK);
  for (; reader_next(&reader, &error) == READ_OK; block_count++) {
    bson_t body;
    assert_true(block_count < BLOCKS_MAX);
    blocks[block_count] = reader.block;
    if (reader.block.kind == BLOCK_DATA)
      continue;
    assert_true(bson_init_static(&body, reader.messages, reader.messages_bytes));
    bson_copy_to(&body, &documents[block_count]);
  }
  reader_close(&reader);
}

int64_t block_end(int i)
{
  return blocks[i].offset + FORMAT_MARKER_BYTES + blocks[i].stored_bytes;
}

void assert_kinds(const char *name, const char *expected)
{
  char kinds[BLOCKS_MAX + 1] = "";
  blocks_list(name, &holder.committed);
  for (int i = 0; i < block_count; i++)
    kinds[i] = "?DOCP"[blocks[i].kind];
  assert_string_equal(kinds, expected);
}

void sample_write(bool zstd)
{
  holder.options.codec_zstd = zstd;
  first_segment(3);
  holder_append(&holder, zstd ? 30 : 1);
  holder_leave(&holder);
  holder_continue(&holder, "B");
  holder_append(&holder, 2);
  holder_append(&holder, zstd ? 40 : 1);
  holder_drop(&holder);
  holder_continue(&holder, "B");
  holder_append(&holder, 2);
  holder_leave(&holder);
  blocks_list("t1.bin", NULL);
}
