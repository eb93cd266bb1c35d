/*
 * format: the bytes of a storage file, format 1. docs/format.md describes them; this module encodes and decodes header and marker, and
 * computes skip offsets, PAD lengths and segment names. Pure functions over the caller's memory, from any thread.
 *
 * The structure (a log of self-checking records, the checksum chained from record to record) follows LevelDB's log and SQLite's WAL. The
 * skip offsets are Myers' "applicative random access stack" (1983): a logarithmic search without a separate index.
 */
#ifndef PAWL_STORAGE_FORMAT_H
#define PAWL_STORAGE_FORMAT_H

#include "base.h"

#include <stddef.h>

enum {
  FORMAT_HEADER_BYTES = 4096,
  FORMAT_MARKER_BYTES = 128,
  FORMAT_CONSTANT_BYTES = 16,                   /* the constant first bytes of each header and marker */
  FORMAT_PAGE_BYTES = 4096,                     /* PAD ends at a multiple of this */
  FORMAT_PAD_BYTES_MIN = 160,                   /* the smallest PAD: with less room it ends one page later */
  FORMAT_DECODED_BYTES_MAX = 80 * 1024 * 1024,  /* more is refused before it is allocated */
  FORMAT_BLOCK_BYTES_MAX = 64 * 1024 * 1024,    /* a writer puts no more into a block, except for one large document */
  FORMAT_DOCUMENT_BYTES_MAX = 16 * 1024 * 1024, /* BSON's limit: for the document around a zstd frame */
};

enum block_kind { BLOCK_DATA = 1, BLOCK_OPEN = 2, BLOCK_CLOSE = 3, BLOCK_PAD = 4 }; /* from 128 on: readers pass over the block */
enum block_codec { CODEC_PLAIN = 0, CODEC_ZSTD = 1 };

/* The program that wrote a header or an OPEN; recorded for diagnosis. */
struct writer_identity {
  char host[256];
  int64_t pid;
  char machine[MACHINE_SIZE]; /* the kernel's boot id */
};

struct segment_header {
  uint32_t incompat, ro_compat, compat; /* feature words; this version knows no bit of them */
  uint8_t uuid[16];                     /* its first 8 bytes are the file_id */
  int64_t epoch;                        /* in which the file was made */
  int64_t first_seq;
  int64_t created_us; /* wall clock, µs since 1970 UTC */
  int64_t number;     /* of the segment within its type, from 0 */

  uint8_t predecessor_uuid[16]; /* all zero without a predecessor, like the five below */
  int64_t predecessor_epoch;
  int64_t predecessor_length; /* committed, bytes */
  int64_t predecessor_seq;
  uint64_t predecessor_link;
  int64_t predecessor_tail;

  char type[TYPE_BYTES_MAX + 1];
  char predecessor[FILE_NAME_SIZE]; /* bare file name; empty: none */
  struct writer_identity writer;
  char version[32];
  char reason[16]; /* "first", "unclean" or "roll" */

  uint32_t crc; /* of the header; set by encode and decode */
};

struct block_marker {
  uint8_t kind, codec, flags;
  uint32_t stored_bytes, decoded_bytes; /* of the body */
  uint32_t count;                       /* documents */
  uint32_t items;                       /* messages: a bundle counts as many as it holds */
  uint8_t file_id[8];
  int64_t offset; /* its own */
  int64_t epoch;  /* of the writer */
  int64_t seq;    /* of the first document; in a block without documents of the next one */
  int64_t time_us;
  int64_t before;    /* offset of the block before; 0: none */
  int64_t skip;      /* offset of an earlier block; 0 in block 0 */
  uint64_t link;     /* the two CRCs of the block before */
  uint32_t number;   /* of the block within the file, from 0 */
  uint32_t body_crc; /* over the stored bytes */
  uint32_t crc;      /* of the marker; set by encode and decode */
};

enum format_status {
  FORMAT_OK,
  FORMAT_INVALID, /* not the bytes of a header or marker: torn, damaged, or something else */
  FORMAT_NEWER,   /* intact, but of a version, flag, kind, codec or feature that this pawl does not know */
};

/* CRC-32C (Castagnoli, as in iSCSI, RFC 3720). The CRC of "123456789" is E3069283, that of no bytes 0. */
uint32_t format_crc(const void *bytes, size_t size);

/* Sets header->crc. `type` must be a valid type (asserted), `predecessor` and the other strings valid UTF-8 of the sizes above. */
void format_header_encode(struct segment_header *header, uint8_t bytes[FORMAT_HEADER_BYTES]);
/* True: these first bytes of a file, at most FORMAT_CONSTANT_BYTES, are certainly not a pawl header, not even a damaged or torn one. */
MUST_CHECK bool format_header_foreign(const uint8_t *bytes, size_t size);
/* On FORMAT_NEWER and FORMAT_INVALID `error` says what is wrong; then only some of the header's fields may be filled. */
MUST_CHECK enum format_status format_header_decode(const uint8_t bytes[FORMAT_HEADER_BYTES], struct segment_header *header,
                                                   struct error *error);

void format_marker_encode(struct block_marker *marker, uint8_t bytes[FORMAT_MARKER_BYTES]);
/* Checks what the marker alone shows: constant bytes, CRC, then version, flags, codec and kind, reserved zeros, and the rules for blocks
 * without documents. After FORMAT_NEWER all fields are filled. */
MUST_CHECK enum format_status format_marker_decode(const uint8_t bytes[FORMAT_MARKER_BYTES], struct block_marker *marker,
                                                   struct error *error);
/* True if the first 16 bytes are a marker's. */
bool format_marker_begins(const uint8_t *bytes);

/* The link that the next block must carry. */
static inline uint64_t format_marker_link(const struct block_marker *marker)
{
  return (uint64_t)marker->crc << 32 | marker->body_crc;
}
/* The same for block 0, from the file's header. */
static inline uint64_t format_header_link(const struct segment_header *header)
{
  return (uint64_t)header->crc << 32;
}

/* How many bytes a PAD block (marker and body) at `offset` must have; 0: none is needed. */
int64_t format_pad_bytes(int64_t offset);

/*
 * The blocks to which the skip offsets lead from the last block down to block 0. They determine the next block's skip offset. There are at
 * most 2·log2(blocks) entries: 64 are enough for 2^32 blocks.
 */
struct skip_path {
  int depth;
  struct {
    uint32_t number;
    int64_t offset;
  } entry[64]; /* [depth - 1] is the last block */
};
/* The skip offset of the next block (0 for block 0). */
int64_t skip_path_next(const struct skip_path *path);
/* Appends the next block, which lies at `offset`. */
void skip_path_push(struct skip_path *path, int64_t offset);

/* `T.bin` -> type T, epoch 0; `T@<epoch>.bin`, decimal without leading zeros, -> its epoch. False: not a segment's name. */
MUST_CHECK bool segment_name_parse(const char *name, char type[TYPE_BYTES_MAX + 1], int64_t *epoch);
/* Whether it is a segment of `type`, and its epoch. Cheap for another type's: a directory may have files of many. */
MUST_CHECK bool segment_name_is(const char *name, const char *type, int64_t *epoch);
/* The reverse of segment_name_parse; epoch 0 gives `T.bin`. */
void segment_name_make(const char *type, int64_t epoch, char name[FILE_NAME_SIZE]);

#endif
