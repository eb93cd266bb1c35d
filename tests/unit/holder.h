/*
 * holder: shared by the storage tests: a holder of a type that writes known messages with the real writer onto the memory disk,
 * a ledger that is a plain value, and a reader that compares each message with the expected one of its seq.
 */
#ifndef PAWL_TESTS_HOLDER_H
#define PAWL_TESTS_HOLDER_H

#include "memory_disk.h"
#include "storage/chain.h"
#include "storage/writer.h"
#include "unit_test.h"

#define DIR "d" /* on the memory disk */

enum { MESSAGE_BYTES_MAX = 1024, SEQS_MAX = 1 << 14 };

struct holder {
  struct writer_options options;
  struct writer writer;
  /* the ledger's state */
  struct committed committed;
  char machine[MACHINE_SIZE];
  int64_t epoch;
  bool clean, vouched; /* vouched: by the last writer */

  int64_t now_us; /* rises by one second per block */
  struct error error;
};

/* The message of a seq; every fifth one is a bundle of three. */
size_t message_make(int64_t seq, uint8_t bytes[MESSAGE_BYTES_MAX]);
uint32_t message_items(int64_t seq);
/* The `count` messages from `seq` on. The caller calls batch_deinit. */
struct batch messages_batch(int64_t seq, int count);

/* A type without a ledger, on machine "A". */
void holder_init(struct holder *holder, const char *type);
/* The fence and the check: the next epoch, on this machine. */
enum check_status holder_open(struct holder *holder, const char *machine);
/* Opens, and continues the file (guard, cut); each step must succeed. */
void holder_continue(struct holder *holder, const char *machine);
/* Opens, and makes a new segment; each step must succeed. */
void holder_create(struct holder *holder, const char *reason);
/* Writes and syncs one block; holder_commit commits it. */
enum writer_status holder_write(struct holder *holder, int messages);
void holder_commit(struct holder *holder);
/* Writes and commits; both must succeed. */
void holder_append(struct holder *holder, int messages);
/* Writes CLOSE, and commits. */
void holder_leave(struct holder *holder);
/* Closes without a CLOSE. */
void holder_drop(struct holder *holder);

/* A correct marker for the next block; the test may change it before it is written. */
struct block_marker forge_marker(const struct holder *holder, int kind);
/* Writes any marker and body after the end, with correct CRCs, and goes on as if this were a block. */
void forge_block(struct holder *holder, struct block_marker *marker, const void *body, size_t bytes);

/* What was read from one segment, or from a chain. */
struct reading {
  enum read_status status; /* how the reading ended */
  struct error error;
  int64_t messages, blocks, last_seq;
  int damages;
  int64_t lost_first, lost_last; /* as the last damage was reported, before it was passed */
  uint8_t seen[SEQS_MAX];        /* by seq: 1 delivered, 2 reported lost */
};
/* Reads from the reader's position on; every message must be the expected one of its seq. `pass`: goes on after damage. */
void read_on(struct reader *reader, bool pass, struct reading *reading);
/* Opens and reads. */
void read_segment(const char *name, const struct committed *end, bool pass, struct reading *reading);
/* Loads the chain and reads it; the status is that of chain_load if that is not READ_OK. */
void read_chain(const char *type, const struct committed *end, struct reading *reading);

#endif
