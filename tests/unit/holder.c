#include "holder.h"
#include "bson_array.h"
#include "unit_test.h"

#include <stdlib.h>

/* ---- messages ---- */

uint32_t message_items(int64_t seq)
{
  return seq % 5 == 0 ? 3 : 1;
}

size_t message_make(int64_t seq, uint8_t bytes[MESSAGE_BYTES_MAX])
{
  char text[64];
  static const char *const keys[] = {"0", "1", "2"};
  bson_t document = BSON_INITIALIZER, batch;
  snprintf(text, sizeof text, "%.*s %lld", (int)(seq % 11), "abcdefghijkl", (long long)seq);
  BSON_APPEND_INT64(&document, "_id", seq);
  BSON_APPEND_UTF8(&document, "type", "t1");
  if (message_items(seq) == 1)
    BSON_APPEND_UTF8(&document, "payload", text);
  else {
    bson_append_array_unsafe_begin(&document, "batch", -1, &batch);
    for (int i = 0; i < 3; i++) {
      bson_t item = BSON_INITIALIZER;
      bson_append_document(&batch, keys[i], 1, &item);
      bson_destroy(&item);
    }
    bson_append_array_end(&document, &batch);
  }
  size_t size = document.len;
  assert_true(size <= MESSAGE_BYTES_MAX);
  memcpy(bytes, bson_get_data(&document), size);
  bson_destroy(&document);
  return size;
}

struct batch messages_batch(int64_t seq, int count)
{
  struct batch batch;
  uint8_t bytes[MESSAGE_BYTES_MAX];
  batch_init(&batch);
  for (int i = 0; i < count; i++) {
    size_t size = message_make(seq + i, bytes);
    assert_true(batch_add(&batch, bytes, size, message_items(seq + i)));
  }
  return batch;
}

/* ---- the holder ---- */

void holder_init(struct holder *holder, const char *type)
{
  memset(holder, 0, sizeof *holder);
  holder->options = (struct writer_options){.dir = DIR, .type = type, .permissions = 0640, .lease_ms = 30000};
  snprintf(holder->options.identity.host, sizeof holder->options.identity.host, "host");
  holder->options.identity.pid = 77;
  holder->now_us = INT64_C(1700000000000000);
}

enum check_status holder_open(struct holder *holder, const char *machine)
{
  snprintf(holder->options.identity.machine, MACHINE_SIZE, "%s", machine);
  holder->epoch++;
  struct writer_start start = {.epoch = holder->epoch,
                               .local = memory_disk.local,
                               .end = &holder->committed,
                               .machine = holder->machine,
                               .vouched = holder->vouched};
  return writer_open(&holder->writer, &holder->options, &start, &holder->error);
}

static void assert_ok(const struct holder *holder, bool ok)
{
  if (!ok)
    fail_msg("epoch %lld: %s", (long long)holder->epoch, holder->error.text);
}

void holder_continue(struct holder *holder, const char *machine)
{
  struct continue_check check;
  assert_ok(holder, holder_open(holder, machine) == CHECK_OK);
  assert_ok(holder, writer_guard(&holder->writer, &check, &holder->error) == WRITER_OK);
  assert_true(check.local && check.guarded);
  assert_ok(holder, writer_cut(&holder->writer, &holder->error) == WRITER_OK);
}

void holder_create(struct holder *holder, const char *reason)
{
  uint8_t uuid[16];
  assert_ok(holder, holder_open(holder, holder->machine[0] ? holder->machine : "A") == CHECK_OK);
  for (int i = 0; i < 16; i++)
    uuid[i] = (uint8_t)(16 * holder->epoch + i);
  holder->now_us += 1000000;
  assert_ok(holder, writer_create(&holder->writer, reason, uuid, 0, holder->now_us, &holder->error) == WRITER_OK);
  holder_commit(holder);
}

void holder_commit(struct holder *holder)
{
  holder->committed = holder->writer.end;
  holder->clean = false;
  holder->vouched = holder->writer.local;
  snprintf(holder->machine, sizeof holder->machine, "%s", holder->options.identity.machine);
}

enum writer_status holder_write(struct holder *holder, int messages)
{
  struct batch batch = messages_batch(holder->writer.end.seq + 1, messages);
  holder->now_us += 1000000;
  enum writer_status status = writer_append(&holder->writer, &batch, holder->now_us, &holder->error);
  batch_deinit(&batch);
  return status == WRITER_OK ? writer_sync(&holder->writer, &holder->error) : status;
}

void holder_append(struct holder *holder, int messages)
{
  assert_ok(holder, holder_write(holder, messages) == WRITER_OK);
  holder_commit(holder);
}

void holder_leave(struct holder *holder)
{
  holder->now_us += 1000000;
  assert_ok(holder, writer_append_close(&holder->writer, holder->now_us, &holder->error) == WRITER_OK &&
                        writer_sync(&holder->writer, &holder->error) == WRITER_OK);
  holder_drop(holder);
  holder_commit(holder);
  holder->clean = true;
}

void holder_drop(struct holder *holder)
{
  assert_ok(holder, writer_close(&holder->writer, &holder->error) == WRITER_OK);
}

/* ---- forging ---- */

struct block_marker forge_marker(const struct holder *holder, int kind)
{
  const struct writer *writer = &holder->writer;
  struct block_marker marker = {.kind = (uint8_t)kind};
  memcpy(marker.file_id, writer->header.uuid, sizeof marker.file_id);
  marker.offset = writer->end.length;
  marker.epoch = writer->has_last ? writer->last.epoch : writer->header.epoch;
  marker.seq = writer->end.seq + 1;
  marker.time_us = writer->has_last ? writer->last.time_us : writer->header.created_us;
  marker.before = writer->end.tail;
  marker.skip = skip_path_next(&writer->path);
  marker.link = writer->end.link;
  marker.number = writer->has_last ? writer->last.number + 1 : 0;
  return marker;
}

void forge_block(struct holder *holder, struct block_marker *marker, const void *body, size_t bytes)
{
  struct writer *writer = &holder->writer;
  uint8_t block[FORMAT_MARKER_BYTES + 8192];
  struct error error;
  assert_true(bytes <= 8192);
  memcpy(block + FORMAT_MARKER_BYTES, body, bytes);
  if (marker->stored_bytes == 0)
    marker->stored_bytes = (uint32_t)bytes;
  if (marker->decoded_bytes == 0)
    marker->decoded_bytes = marker->stored_bytes;
  marker->body_crc = format_crc(body, bytes);
  format_marker_encode(marker, block);
  int64_t offset = writer->end.length;
  assert_int_equal(file_write(&writer->file, offset, block, FORMAT_MARKER_BYTES + bytes, &error), FILE_OK);
  skip_path_push(&writer->path, offset);
  writer->last = *marker;
  writer->has_last = true;
  writer->end.length += FORMAT_MARKER_BYTES + (int64_t)bytes;
  writer->end.tail = offset;
  writer->end.link = format_marker_link(marker);
  writer->end.seq += marker->count;
  writer->end.items += marker->items;
  holder->committed = writer->end;
}

/* ---- reading ---- */

static void reading_take(struct reading *reading, const struct block_marker *block, const uint8_t *messages, size_t bytes)
{
  uint8_t expected[MESSAGE_BYTES_MAX];
  size_t at = 0;
  reading->blocks++;
  if (block->kind != BLOCK_DATA)
    return;
  for (int64_t seq = block->seq; seq < block->seq + block->count; seq++) {
    size_t size = message_make(seq, expected);
    assert_true(seq > reading->last_seq && seq < SEQS_MAX);
    assert_true(at + size <= bytes);
    assert_memory_equal(messages + at, expected, size);
    assert_int_equal(reading->seen[seq], 0);
    reading->seen[seq] = 1;
    reading->last_seq = seq;
    reading->messages++;
    at += size;
  }
  assert_int_equal(at, bytes);
}

static void reading_lose(struct reading *reading, int64_t first, int64_t last)
{
  for (int64_t seq = first; seq <= last; seq++) {
    assert_int_equal(reading->seen[seq], 0);
    reading->seen[seq] = 2;
  }
}

void read_on(struct reader *reader, bool pass, struct reading *reading)
{
  struct error error;
  for (;;) {
    reading->status = reader_next(reader, &reading->error);
    if (reading->status == READ_OK)
      reading_take(reading, &reader->block, reader->messages, reader->messages_bytes);
    else if (reading->status == READ_DAMAGED) {
      reading->lost_first = reader->lost_first;
      reading->lost_last = reader->lost_last;
      if (!pass)
        return;
      assert_true(reading->damages++ < 1000);
      enum read_status passed = reader_pass_damage(reader, &error);
      assert_true(passed == READ_OK || passed == READ_END);
      reading_lose(reading, reader->lost_first, reader->lost_last);
    } else
      return;
  }
}

void read_segment(const char *name, const struct committed *end, bool pass, struct reading *reading)
{
  struct reader reader;
  memset(reading, 0, sizeof *reading);
  reading->status = reader_open(&reader, DIR, name, end, &reading->error);
  if (reading->status != READ_OK)
    return;
  read_on(&reader, pass, reading);
  reader_close(&reader);
}

void read_chain(const char *type, const struct committed *end, struct reading *reading)
{
  struct chain chain;
  struct chain_reader at;
  memset(reading, 0, sizeof *reading);
  reading->status = chain_load(&chain, DIR, type, end, 0, &reading->error);
  if (reading->status == READ_OK) {
    chain_reader_init(&at, DIR, &chain);
    while ((reading->status = chain_reader_next(&at, &reading->error)) == READ_OK)
      reading_take(reading, &at.reader.block, at.reader.messages, at.reader.messages_bytes);
    chain_reader_deinit(&at);
  }
  chain_free(&chain);
}
