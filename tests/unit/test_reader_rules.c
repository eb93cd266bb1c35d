/* The rules by which a reader takes a block, one by one; where it ends; and a disk that fails. */
#include "storage_fixture.h"

#include <stdlib.h>

static uint8_t message[MESSAGE_BYTES_MAX];

/* Three DATA blocks and the marker of a fourth, for one message. */
static struct block_marker fourth(int kind)
{
  storage_end(NULL);
  storage_begin(NULL);
  first_segment(2);
  holder_append(&holder, 1);
  holder_append(&holder, 1);
  struct block_marker marker = forge_marker(&holder, kind);
  if (kind == BLOCK_DATA)
    marker.count = marker.items = 1;
  return marker;
}

static void fourth_read(struct block_marker *marker)
{
  size_t size = message_make(5, message);
  forge_block(&holder, marker, message, size);
  read_segment("t1.bin", &holder.committed, false, &reading);
}

#define REFUSED(kind, change, says)                            \
  do {                                                         \
    struct block_marker marker = fourth(kind);                 \
    change;                                                    \
    fourth_read(&marker);                                      \
    if (reading.status != READ_DAMAGED || reading.blocks != 3) \
      fail_msg("%s: taken", #change);                          \
    assert_contains(reading.error.text, says);                 \
  } while (0)

static void change_created(int64_t by_us)
{
  size_t size = 0;
  struct segment_header header;
  first_segment(2);
  uint8_t *bytes = memory_disk_bytes(DIR, "t1.bin", &size);
  assert_int_equal(format_header_decode(bytes, &header, &error), FORMAT_OK);
  header.created_us += by_us;
  format_header_encode(&header, bytes);
  read_segment("t1.bin", &holder.committed, false, &reading);
  assert_int_equal(reading.status, READ_DAMAGED);
  assert_int_equal(reading.blocks, 0);
}

/* Of the first block the header is the one before: another one with a right CRC is not the file's. */
STORAGE_TEST(test_the_first_block_is_bound_to_the_header)
{
  change_created(-1);
  assert_contains(reading.error.text, "link");
}

STORAGE_TEST(test_rules)
{
  struct block_marker right = fourth(BLOCK_DATA);
  fourth_read(&right);
  assert_int_equal(reading.status, READ_END);
  assert_int_equal(reading.blocks, 4);

  REFUSED(BLOCK_DATA, marker.file_id[7] ^= 1, "another place or file");
  REFUSED(BLOCK_DATA, marker.offset++, "another place or file");
  REFUSED(BLOCK_DATA, marker.before = 4096, "names another block");
  REFUSED(BLOCK_DATA, marker.link ^= 1, "link");
  REFUSED(BLOCK_DATA, marker.link ^= (uint64_t)1 << 63, "link");
  REFUSED(BLOCK_DATA, marker.number++, "number");
  REFUSED(BLOCK_DATA, marker.seq++, "seq");
  REFUSED(BLOCK_DATA, marker.seq--, "seq");
  REFUSED(BLOCK_DATA, marker.time_us--, "time");
  REFUSED(BLOCK_DATA, marker.epoch--, "epoch is below");
  REFUSED(BLOCK_DATA, marker.epoch++, "rises without an OPEN");
  REFUSED(BLOCK_CLOSE, marker.epoch++, "rises without an OPEN");
  REFUSED(200, marker.epoch++, "rises without an OPEN");
  REFUSED(BLOCK_DATA, marker.skip = marker.before, "skip offset");
  REFUSED(BLOCK_DATA, marker.skip = 0, "skip offset");
  REFUSED(BLOCK_DATA, marker.decoded_bytes = 1, "contradict");
  REFUSED(BLOCK_DATA, marker.count = 2, "promised number");
  REFUSED(BLOCK_DATA, marker.count = UINT32_MAX, "promised number");
  REFUSED(BLOCK_DATA, marker.stored_bytes = UINT32_MAX, "body is cut");
  REFUSED(BLOCK_DATA, (marker.codec = CODEC_ZSTD, marker.decoded_bytes = FORMAT_DECODED_BYTES_MAX + 1), "80 MiB");
  REFUSED(BLOCK_DATA, (marker.codec = CODEC_ZSTD, marker.decoded_bytes = 5), "zstd frame");
}
#undef REFUSED

STORAGE_TEST(test_newer_block)
{
  struct block_marker marker = fourth(5);
  fourth_read(&marker);
  assert_int_equal(reading.status, READ_NEWER);
  assert_int_equal(reading.blocks, 3);
  marker = fourth(BLOCK_DATA);
  marker.flags = 0x80;
  fourth_read(&marker);
  assert_int_equal(reading.status, READ_NEWER);
  read_segment("t1.bin", NULL, false, &reading);
  assert_int_equal(reading.status, READ_NEWER);
}

/* For these kinds the reader checks only the chain and the body CRC; the body need not be a document. */
STORAGE_TEST(test_unknown_kind_passed_over)
{
  struct block_marker marker = fourth(200);
  forge_block(&holder, &marker, "\xFF not BSON", 10);
  holder_append(&holder, 1);
  read_segment("t1.bin", &holder.committed, false, &reading);
  assert_int_equal(reading.status, READ_END);
  assert_int_equal(reading.blocks, 5);
  size_t size = 0;
  sample(&size)[marker.offset + FORMAT_MARKER_BYTES] ^= 1;
  read_segment("t1.bin", &holder.committed, false, &reading);
  assert_int_equal(reading.status, READ_DAMAGED);
}

/* A PAD may raise the epoch only for the OPEN after it; at the committed end the OPEN may still be missing. */
STORAGE_TEST(test_epoch_raised_by_pad)
{
  static const struct {
    int kind;
    int64_t rise; /* of the block after the PAD, above the PAD's epoch */
    enum read_status status;
  } behind[] = {{BLOCK_OPEN, 0, READ_END},      {BLOCK_OPEN, 1, READ_DAMAGED}, {BLOCK_DATA, 0, READ_DAMAGED},
                {BLOCK_CLOSE, 0, READ_DAMAGED}, {BLOCK_PAD, 0, READ_DAMAGED},  {200, 0, READ_DAMAGED}};
  for (size_t i = 0; i < sizeof behind / sizeof behind[0]; i++) {
    struct block_marker pad = fourth(BLOCK_PAD), next;
    pad.epoch++;
    forge_block(&holder, &pad, "\x05\0\0\0", 5);
    read_segment("t1.bin", &holder.committed, false, &reading);
    assert_int_equal(reading.status, READ_END);
    next = forge_marker(&holder, behind[i].kind);
    next.epoch += behind[i].rise;
    next.count = next.items = behind[i].kind == BLOCK_DATA;
    forge_block(&holder, &next, message, message_make(5, message));
    read_segment("t1.bin", &holder.committed, false, &reading);
    assert_int_equal(reading.status, behind[i].status);
    /* The same when the reader was placed after the PAD. */
    struct reader reader;
    assert_int_equal(reader_open(&reader, DIR, "t1.bin", &holder.committed, &error), READ_OK);
    assert_int_equal(reader_place_after(&reader, pad.offset, &error), READ_OK);
    assert_int_equal(reader_next(&reader, &error), behind[i].status == READ_END ? READ_OK : READ_DAMAGED);
    reader_close(&reader);
  }
}

/* ---- the committed end ---- */

static void assert_end_refused(struct committed end, const char *text)
{
  read_segment("t1.bin", &end, false, &reading);
  assert_int_equal(reading.status, READ_DAMAGED);
  assert_contains(reading.error.text, text);
}

STORAGE_TEST(test_end_disagrees)
{
  sample_write(false);
  struct committed end = holder.committed;
  end.tail--;
  assert_end_refused(end, "at its committed end");
  end = holder.committed, end.link ^= 1;
  assert_end_refused(end, "at its committed end");
  end = holder.committed, end.seq++;
  assert_end_refused(end, "at its committed end");
  end = holder.committed, end.uuid[15] ^= 1;
  assert_end_refused(end, "uuid");
  end = holder.committed, end.length++;
  assert_end_refused(end, "cut");
  /* Every limit that is not a block's end is damage; a block's end with a wrong tail is damage, too. */
  for (end = holder.committed; end.length >= FORMAT_HEADER_BYTES; end.length--) {
    read_segment("t1.bin", &end, false, &reading);
    assert_int_equal(reading.status, end.length == holder.committed.length ? READ_END : READ_DAMAGED);
  }
}

/* For a reader nothing exists beyond the end. */
STORAGE_TEST(test_limit_inside)
{
  sample_write(false);
  for (int i = 0; i < block_count; i++) {
    struct committed end = holder.committed;
    end.length = block_end(i);
    end.tail = blocks[i].offset;
    end.link = format_marker_link(&blocks[i]);
    end.seq = blocks[i].seq + blocks[i].count - 1;
    read_segment("t1.bin", &end, false, &reading);
    assert_int_equal(reading.status, READ_END);
    assert_int_equal(reading.blocks, i + 1);
    assert_int_equal(reading.messages, end.seq);
  }
}

/* Zeros, noise, a torn block, a block of an older epoch after the last valid one: an uncommitted tail, and nothing else. */
STORAGE_TEST(test_tails)
{
  sample_write(false);
  size_t size = 0;
  uint8_t tail[9000] = {0}, *bytes = sample(&size), whole[32768];
  uint64_t random = 7;
  assert_true(size + sizeof tail <= sizeof whole);
  memcpy(whole, bytes, size);
  for (int which = 0; which < 3; which++) {
    for (size_t i = 0; which == 1 && i < sizeof tail; i++)
      tail[i] = (uint8_t)memory_disk_random(&random);
    if (which == 2) /* the first blocks once more */
      memcpy(tail, whole + 4096, 500);
    memcpy(whole + size, tail, sizeof tail);
    memory_disk_put(DIR, "t1.bin", whole, size + sizeof tail);
    read_segment("t1.bin", NULL, false, &reading);
    assert_int_equal(reading.status, READ_TAIL);
    assert_int_equal(reading.messages, holder.committed.seq);
    read_segment("t1.bin", &holder.committed, false, &reading);
    assert_int_equal(reading.status, READ_END);
  }
}

/* The search finds a whole marker after the damage, wherever it lies relative to the search windows. */
STORAGE_TEST(test_proof_is_found_anywhere)
{
  enum { WINDOW = 1 << 20 };
  uint8_t *large = calloc(1, 2 * WINDOW);
  assert_non_null(large);
  for (int64_t gap = WINDOW - FORMAT_MARKER_BYTES - 2; gap <= WINDOW + 2; gap++) {
    storage_end(NULL);
    storage_begin(NULL);
    holder_create(&holder, "first");
    size_t size = (size_t)(gap - FORMAT_MARKER_BYTES);
    struct batch batch;
    batch_init(&batch);
    large[0] = (uint8_t)size, large[1] = (uint8_t)(size >> 8), large[2] = (uint8_t)(size >> 16);
    assert_true(batch_add(&batch, large, size, 1));
    assert_int_equal(writer_append(&holder.writer, &batch, holder.now_us, &error), WRITER_OK);
    batch_deinit(&batch);
    holder_append(&holder, 1);
    sample(&size)[4096] ^= 1;
    read_segment("t1.bin", NULL, true, &reading);
    assert_int_equal(reading.status, READ_END);
    assert_int_equal(reading.damages, 1);
    assert_int_equal(reading.seen[1], 2);
    assert_int_equal(reading.seen[2], 1);
  }
  free(large);
}

/* A disk error is reported as a disk error: never as damage or an end, whatever the file is like. */
static void failing_reads(const struct committed *end)
{
  static const enum disk_call calls[] = {DISK_OPEN, DISK_READ, DISK_SIZE};
  read_segment("t1.bin", end, false, &reading);
  enum read_status expected = reading.status;
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
    for (int n = 1;; n++) {
      memory_disk.fail_in[calls[i]] = n;
      read_segment("t1.bin", end, false, &reading);
      bool failed = memory_disk.fail_in[calls[i]] == 0;
      memory_disk.fail_in[calls[i]] = 0;
      assert_int_equal(reading.status, failed ? READ_FAILED : expected);
      if (!failed)
        break;
      assert_contains(reading.error.text, "as the test wants");
    }
}

STORAGE_TEST(test_failing_reads)
{
  size_t size = 0;
  sample_write(false);
  failing_reads(&holder.committed);
  failing_reads(NULL);
  uint8_t *bytes = sample(&size);
  bytes[size - 1] ^= 1; /* a torn tail */
  failing_reads(NULL);
  bytes[blocks[1].offset] ^= 1; /* damage */
  failing_reads(NULL);
}
