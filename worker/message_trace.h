/*
 * message_trace: --trace FIELD: the value of a field of each message of a block, in log lines at debug, so that a message can be followed
 * from the producer into the file. Any thread. It reads the whole block, so call it only where message_trace_wanted says so.
 */
#ifndef PAWL_WORKER_MESSAGE_TRACE_H
#define PAWL_WORKER_MESSAGE_TRACE_H

#include "storage/batch.h"
#include "storage/field.h"

struct message_trace {
  const char *field; /* as it was given; borrowed */
  struct field_path path;
};

/* A block as it was written. */
struct traced_block {
  const char *type;
  int64_t epoch;
  const struct committed *end; /* after the block */
  const struct batch *batch;   /* its documents */
  const char *outcome;         /* of its commit: a static word */
};

/* False: no field is traced (NULL), or no line at debug is written. */
bool message_trace_wanted(const struct message_trace *trace);
void message_trace_block(const struct message_trace *trace, const struct traced_block *block);

#endif
