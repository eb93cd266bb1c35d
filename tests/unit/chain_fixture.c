#include "chain_fixture.h"

struct chain chain;

int chain_end(void **state)
{
  chain_free(&chain);
  return storage_end(state);
}

enum read_status load_from(const struct committed *end, int64_t from_seq)
{
  chain_free(&chain);
  return chain_load(&chain, DIR, "t1", end, from_seq, &error);
}

enum read_status load(const struct committed *end)
{
  return load_from(end, 0);
}

void assert_chain(const char *expected)
{
  char text[1000] = "";
  for (size_t i = 0; i < chain.count; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i > 0 ? " " : "", chain.segments[i].name);
  for (size_t i = 0; i < chain.orphan_count; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s %s", i > 0 ? "" : " |", chain.orphans[i]);
  assert_string_equal(text, expected);
}

void assert_reads(const struct committed *end, int64_t first, int64_t last)
{
  read_chain("t1", end, &reading);
  assert_int_equal(reading.status, READ_END);
  for (int64_t seq = 1; seq <= last + 1; seq++)
    assert_int_equal(reading.seen[seq], seq >= first && seq <= last);
}

void four_segments(void)
{
  for (int i = 0; i < 4; i++) {
    holder_create(&holder, i ? "roll" : "first");
    holder_append(&holder, 2);
    holder_append(&holder, 3);
    holder_leave(&holder);
  }
}

void header_change(const char *name, void (*change)(struct segment_header *))
{
  size_t size = 0;
  uint8_t *bytes = memory_disk_bytes(DIR, name, &size);
  struct segment_header header;
  assert_int_equal(format_header_decode(bytes, &header, &error), FORMAT_OK);
  change(&header);
  format_header_encode(&header, bytes);
}
