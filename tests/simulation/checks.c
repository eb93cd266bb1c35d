#include "checks.h"
#include "chaos.h"
#include "disk.h"
#include "process.h"
#include "server.h"
#include "storage/body.h"
#include "storage/format.h"
#include "trace.h"
#include "world.h"

#include <assert.h>
#include <stdlib.h>

enum { TAKES_KEPT = 512, PRODUCERS_MAX = 16 };

struct take { /* which owner got the lock, in the order of acquisition */
  struct owner owner;
  struct caller caller;
  int64_t order;
  int64_t at_us; /* when the lock was last granted */
};

struct renewed {
  struct owner owner;
  int64_t at_us;
};

struct record {
  struct ledger ledger; /* as last seen */
  struct take takes[TAKES_KEPT];
  int64_t take_count, takes_ever;
  struct renewed renewals[PROCESSES_MAX]; /* the last renewal of each worker */
  int64_t fenced_order;                   /* the order of the take whose holder fenced this epoch */
  struct caller fencer;
  bool fencer_known;
  struct message **committed; /* by seq */
  int64_t committed_count, committed_size;
  int64_t producer_last[PRODUCERS_MAX];
  int64_t block_epoch; /* epoch of the last block */
  bool pad;            /* the epoch's first block must not lie in the same page as the block before it */
  bool adopted;        /* the ledger was adopted, and no segment was begun since */
};

static struct record records[TYPES_MAX];

void checks_begin(void)
{
  checks_end();
  memset(records, 0, sizeof records);
}

void checks_end(void)
{
  for (int i = 0; i < TYPES_MAX; i++) {
    free(records[i].committed);
    records[i].committed = NULL;
  }
}

struct message *const *checks_committed(int type, int64_t *count)
{
  *count = records[type].committed_count;
  return records[type].committed;
}

const struct ledger *checks_ledger_last(int type)
{
  return &records[type].ledger;
}

/* ---- messages ---- */

void checks_removed(struct message *message)
{
  if (message->foreign != FOREIGN_NOT)
    world_fail("foreign: a document of another program is deleted in t%d's collection", message->type);
  else if (message->seq == 0)
    world_fail("lost: message %lld of producer %d of t%d left the queue and is not in committed file data", (long long)message->number,
               message->producer, message->type);
}

static void message_committed(struct record *record, struct message *message, int64_t seq)
{
  if (message->foreign != FOREIGN_NOT) {
    world_fail("foreign: a document of another program is committed as seq %lld of t%d", (long long)seq, message->type);
    return;
  }
  if (message->seq != 0) {
    world_fail("doubled: message %lld of producer %d of t%d is committed as seq %lld and again as seq %lld", (long long)message->number,
               message->producer, message->type, (long long)message->seq, (long long)seq);
    return;
  }
  if (!message->inserted)
    world_fail("message %lld of producer %d of t%d is committed, and its insert was not", (long long)message->number, message->producer,
               message->type);
  if (message->number <= record->producer_last[message->producer] && !chaos_plan.standalone)
    world_fail("order: message %lld of producer %d of t%d is committed after its number %lld", (long long)message->number,
               message->producer, message->type, (long long)record->producer_last[message->producer]);
  if (seq != record->committed_count + 1)
    world_fail("t%d: seq %lld is committed after seq %lld", message->type, (long long)seq, (long long)record->committed_count);
  message->seq = seq;
  record->producer_last[message->producer] = message->number;
  if (record->committed_count == record->committed_size) {
    record->committed_size = record->committed_size == 0 ? 256 : 2 * record->committed_size;
    record->committed = realloc(record->committed, (size_t)record->committed_size * sizeof(struct message *));
    assert(record->committed != NULL);
  }
  record->committed[record->committed_count++] = message;
  world.messages++;
}

static struct message *message_of(int type, const uint8_t *document, size_t bytes)
{
  bson_t view;
  bson_iter_t at;
  if (!bson_init_static(&view, document, bytes) || !bson_iter_init_find(&at, &view, "k"))
    return NULL;
  struct message *message = queue_message(type, bson_iter_as_int64(&at));
  bool same = message != NULL && message->bytes == bytes && memcmp(message->document, document, bytes) == 0;
  return same ? message : NULL;
}

static void documents_committed(int type, const uint8_t *documents, size_t size, uint32_t count, int64_t seq)
{
  if (!body_is_documents(documents, size, count)) {
    world_fail("t%d: the block of seq %lld does not hold its %u documents", type, (long long)seq, count);
    return;
  }
  for (uint32_t i = 0; i < count && !world.failed; i++) {
    uint32_t bytes = (uint32_t)documents[0] | (uint32_t)documents[1] << 8 | (uint32_t)documents[2] << 16 | (uint32_t)documents[3] << 24;
    struct message *message = message_of(type, documents, bytes);
    if (message == NULL)
      world_fail("t%d: what is committed as seq %lld is no message of the queue", type, (long long)(seq + i));
    else
      message_committed(&records[type], message, seq + i);
    documents += bytes;
  }
}

/* ---- from one committed end to the next ---- */

static void body_committed(int type, const struct block_marker *marker, const uint8_t *stored)
{
  const uint8_t *frame;
  size_t frame_bytes;
  if (format_crc(stored, marker->stored_bytes) != marker->body_crc) {
    world_fail("t%d: the body of the block at offset %lld has another CRC", type, (long long)marker->offset);
  } else if (marker->codec == CODEC_PLAIN) {
    documents_committed(type, stored, marker->decoded_bytes, marker->count, marker->seq);
  } else {
    uint8_t *decoded = malloc(marker->decoded_bytes);
    assert(decoded != NULL);
    if (!body_find_frame(stored, marker->stored_bytes, marker->decoded_bytes, &frame, &frame_bytes) ||
        !body_decode_frame(frame, frame_bytes, decoded, marker->decoded_bytes))
      world_fail("t%d: the body of the block at offset %lld cannot be decoded", type, (long long)marker->offset);
    else
      documents_committed(type, decoded, marker->decoded_bytes, marker->count, marker->seq);
    free(decoded);
  }
}

/* Without a PAD the block shares a page with the last block, whose writer may be another kernel, or the same one through another view. */
static void page_check(int type, const struct block_marker *marker, int64_t offset)
{
  const struct record *record = &records[type];
  bool first = marker->epoch > record->block_epoch && marker->epoch == record->ledger.epoch;
  if (record->pad && first && marker->kind != BLOCK_PAD && offset % FORMAT_PAGE_BYTES != 0)
    world_fail("t%d: the block at offset %lld lies in a page that was written by another kernel, or through another view", type,
               (long long)offset);
}

static void walk_block(int type, const uint8_t *bytes, size_t size, struct committed *at)
{
  struct record *record = &records[type];
  struct block_marker marker;
  struct error error = {.text = ""};
  size_t left = size - (size_t)at->length;
  if (left < FORMAT_MARKER_BYTES || format_marker_decode(bytes + at->length, &marker, &error) != FORMAT_OK ||
      left - FORMAT_MARKER_BYTES < marker.stored_bytes) {
    world_fail("t%d: no whole block lies at the committed offset %lld of %s: %.300s", type, (long long)at->length, at->file, error.text);
    return;
  }
  if (marker.offset != at->length || marker.link != at->link || marker.seq != at->seq + 1 ||
      memcmp(marker.file_id, at->uuid, sizeof marker.file_id) != 0)
    world_fail("t%d: the committed block at offset %lld of %s does not follow the one before", type, (long long)at->length, at->file);
  if (marker.epoch < record->block_epoch || marker.epoch > record->ledger.epoch)
    world_fail("t%d: a block of epoch %lld is committed after one of epoch %lld, in epoch %lld", type, (long long)marker.epoch,
               (long long)record->block_epoch, (long long)record->ledger.epoch);
  page_check(type, &marker, at->length);
  record->block_epoch = marker.epoch;
  if (marker.kind == BLOCK_DATA && !world.failed) {
    body_committed(type, &marker, bytes + at->length + FORMAT_MARKER_BYTES);
    world.committed_blocks++;
  }
  at->tail = at->length;
  at->length += FORMAT_MARKER_BYTES + (int64_t)marker.stored_bytes;
  at->link = format_marker_link(&marker);
  at->seq += marker.count;
}

/* On a local file system a holder begins a segment only because a frozen writer has the guard. */
static void segment_check(int type, const struct segment_header *header)
{
  bool busy = records[type].adopted || chaos_plan.files != FILES_LOCAL;
  for (int i = 0; i < chaos_plan.processes && !busy; i++)
    busy = processes[i].busy_epochs[type] == header->epoch;
  if (!busy)
    world_fail("t%d: epoch %lld begins a segment, and the file is local and its guard was free", type, (long long)header->epoch);
}

/* The new segment must name the previous end. */
static void walk_segment(int type, const uint8_t *bytes, size_t size, const struct committed *to, struct committed *at)
{
  struct segment_header header;
  struct error error = {.text = ""};
  if (size < FORMAT_HEADER_BYTES || format_header_decode(bytes, &header, &error) != FORMAT_OK) {
    world_fail("t%d: the segment %s has no whole header: %.300s", type, to->file, error.text);
    return;
  }
  bool follows = at->file[0] == 0 ? header.predecessor[0] == 0
                                  : strcmp(header.predecessor, at->file) == 0 && header.predecessor_length == at->length &&
                                        header.predecessor_link == at->link && header.predecessor_seq == at->seq &&
                                        header.predecessor_tail == at->tail && memcmp(header.predecessor_uuid, at->uuid, 16) == 0;
  if (!follows || header.first_seq != at->seq + 1 || memcmp(header.uuid, to->uuid, sizeof header.uuid) != 0)
    world_fail("t%d: the segment %s does not follow the committed end, %s at %lld", type, to->file, at->file, (long long)at->length);
  if (strcmp(header.reason, "unclean") == 0)
    segment_check(type, &header);
  records[type].adopted = false;
  world.segments++;
  snprintf(at->file, sizeof at->file, "%s", to->file);
  memcpy(at->uuid, to->uuid, sizeof at->uuid);
  at->length = FORMAT_HEADER_BYTES;
  at->tail = 0;
  at->link = format_header_link(&header);
}

static void walk(int type, const struct committed *from, const struct committed *to)
{
  struct committed at = *from;
  size_t size = 0;
  const uint8_t *bytes = disk_durable(to->file, &size);
  if (bytes == NULL || size < (size_t)to->length) {
    world_fail("t%d: %lld bytes of %s are committed, and %zu are safe on the disk", type, (long long)to->length, to->file, size);
    return;
  }
  if (strcmp(at.file, to->file) != 0)
    walk_segment(type, bytes, size, to, &at);
  while (!world.failed && at.length < to->length)
    walk_block(type, bytes, (size_t)to->length, &at);
  if (!world.failed && (at.length != to->length || at.tail != to->tail || at.link != to->link || at.seq != to->seq))
    world_fail("t%d: the blocks lead to offset %lld, seq %lld of %s, and committed is %lld, seq %lld", type, (long long)at.length,
               (long long)at.seq, to->file, (long long)to->length, (long long)to->seq);
  if (!world.failed)
    disk_committed(to->file, to->length);
}

/* ---- the ledger ---- */

void checks_taken(int type, const struct owner *owner, struct caller caller, bool late)
{
  struct record *record = &records[type];
  int64_t kept = record->take_count < TAKES_KEPT ? record->take_count : TAKES_KEPT;
  record->takes_ever++;
  for (int64_t i = record->take_count - kept; i < record->take_count; i++) {
    struct take *take = &record->takes[i % TAKES_KEPT];
    if (memcmp(&take->owner, owner, sizeof *owner) != 0)
      continue;
    take->at_us = world.now_us;
    if (!late) /* another was faster before, and now it has it */
      take->order = record->takes_ever;
    return;
  }
  record->takes[record->take_count++ % TAKES_KEPT] =
      (struct take){.owner = *owner, .caller = caller, .order = record->takes_ever, .at_us = world.now_us};
}

static const struct take *take_find(const struct record *record, const struct owner *owner)
{
  int64_t kept = record->take_count < TAKES_KEPT ? record->take_count : TAKES_KEPT;
  for (int64_t i = record->take_count; i-- > record->take_count - kept;)
    if (memcmp(&record->takes[i % TAKES_KEPT].owner, owner, sizeof *owner) == 0)
      return &record->takes[i % TAKES_KEPT];
  return NULL;
}

void checks_adopted(int type)
{
  records[type].adopted = true;
}

static bool end_moved(const struct committed *a, const struct committed *b)
{
  return strcmp(a->file, b->file) != 0 || a->length != b->length || a->link != b->link || a->seq != b->seq;
}

/*
 * Judged by what the fence found, if the check saw that: when a majority gets several changes at once, the check may miss an
 * epoch or a block.
 */
static bool pad_wanted(const struct ledger *before, const struct ledger *now, struct caller fencer)
{
  if (now->epoch != before->epoch + 1 || end_moved(&before->end, &now->end) || fencer.process < 0)
    return false;
  const struct process *process = &processes[fencer.process];
  return strcmp(before->machine, process_machine(process)->boot_id) != 0 || ledger_vouched(before) != chaos_is_local(process->machine);
}

static void fenced(int type, const struct ledger *now)
{
  struct record *record = &records[type];
  const struct take *take = take_find(record, &now->owner);
  if (take == NULL) {
    world_fail("t%d: epoch %lld belongs to somebody who never had the lock", type, (long long)now->epoch);
    return;
  }
  if (take->order < record->fenced_order)
    world_fail("t%d: epoch %lld goes to worker %d, who had the lock before the holder of epoch %lld", type, (long long)now->epoch,
               take->caller.process, (long long)record->ledger.epoch);
  record->fenced_order = take->order;
  record->fencer = take->caller;
  record->pad = pad_wanted(&record->ledger, now, take->caller);
}

static void settled_rose(int type, int64_t from, int64_t to)
{
  struct record *record = &records[type];
  if (to > record->committed_count) {
    world_fail("t%d: settled is %lld, and %lld messages are committed", type, (long long)to, (long long)record->committed_count);
    return;
  }
  for (int64_t i = from; i < to; i++)
    if (record->committed[i]->queued)
      world_fail("t%d: settled is %lld, and the message of seq %lld is still in the queue", type, (long long)to, (long long)i + 1);
}

static void ledger_trace(int type, const struct ledger *before, const struct ledger *now, const struct caller *caller)
{
  if (before->epoch != now->epoch || end_moved(&before->end, &now->end) || before->clean != now->clean)
    trace_add(caller != NULL ? caller->process : -1, type, "ledger: epoch %lld, %s at %lld, seq %lld, settled %lld%s",
              (long long)now->epoch, now->end.file, (long long)now->end.length, (long long)now->end.seq, (long long)now->settled,
              now->clean ? ", clean" : "");
}

void checks_renewed(int type, const struct owner *owner, int process)
{
  records[type].renewals[process].owner = *owner;
  records[type].renewals[process].at_us = world.now_us;
}

void checks_renewal(const struct lock_renewal *renewal, const struct lock_view *before, int process)
{
  struct lock_view now;
  int type = type_index(renewal->type);
  if (before->ttl_ms == 0 || !server_lock(type, &now) || now.left_ms == before->left_ms)
    return;
  const struct take *take = take_find(&records[type], &before->owner);
  if (memcmp(&before->owner, &renewal->owner, sizeof before->owner) != 0)
    world_fail("t%d: a renewal of worker %d extends a lease of worker %d", type, process, take != NULL ? take->caller.process : -1);
  else if (before->left_ms <= 0)
    world_fail("t%d: a renewal of worker %d extends a lease that is over", type, process);
}

void checks_took_for_renewed(const struct type_context *served, const struct owner *owner, int64_t sent_ms)
{
  const struct renewed *renewed = &records[served->type].renewals[served->process->index];
  int64_t sent_us = machine_boot_to_us(process_machine(served->process), sent_ms);
  if (memcmp(&renewed->owner, owner, sizeof *owner) != 0 || renewed->at_us + 2 * MS < sent_us)
    world_fail("t%d: worker %d takes its lock for renewed, and it is not", served->type, served->process->index);
}

void checks_took(const struct type_context *served, const struct owner *owner, int64_t sent_ms)
{
  const struct take *take = take_find(&records[served->type], owner);
  int64_t sent_us = machine_boot_to_us(process_machine(served->process), sent_ms);
  if (take != NULL && take->at_us + 2 * MS < sent_us)
    world_fail("t%d: worker %d counts its lease from after its lock was granted", served->type, served->process->index);
}

void checks_appended(const struct type_context *served, const struct completion *completion)
{
  disk_check_removed(completion->end.file, served->process->index, completion->number);
}

void checks_disk_failed(const struct type_context *served, const char *text)
{
  if (disk_faults(served->process->index) == served->faults_at_opening)
    world_fail("t%d: worker %d gives its epoch up because of its disk, and no call to it failed: %.300s", served->type,
               served->process->index, text);
}

static void clean_check(int type, const struct ledger *now)
{
  char name[FILE_NAME_SIZE];
  segment_name_make(type_name(type), now->epoch, name);
  if (strcmp(name, now->end.file) != 0 && disk_has(name))
    world_fail("t%d: epoch %lld ends clean, and leaves %s, which the ledger does not name", type, (long long)now->epoch, name);
}

void checks_exits_empty(const struct process *process)
{
  for (int i = 0; i < process->context_count; i++) {
    int type = process->contexts[i].type;
    if (!queue_was_empty(type, process->last.began_us))
      world_fail("worker %d ends because its queues are empty, and %zu messages of t%d waited all the time", process->index,
                 queue_length(type), type);
  }
}

void checks_not_fenced(const struct type_context *served)
{
  struct ledger ledger;
  server_ledger(served->type, &ledger);
  if (ledger.epoch == served->consumer.core.epoch_seen + 1 && memcmp(&ledger.owner, &served->consumer.core.owner, sizeof ledger.owner) == 0)
    world_fail("t%d: worker %d takes epoch %lld for another's, and it is its own", served->type, served->process->index,
               (long long)ledger.epoch);
}

void checks_ledger(int type, const struct caller *caller)
{
  struct record *record = &records[type];
  struct ledger now, before = record->ledger;
  server_ledger(type, &now);
  ledger_trace(type, &before, &now, caller);
  if (now.epoch == 0 && before.end.file[0] == 0) { /* forgotten: what comes is above it all the same, whoever has seen no ledger before */
    record->fenced_order = 0;
    return;
  }
  if (now.epoch < before.epoch || now.end.seq < before.end.seq || now.settled < before.settled)
    world_fail("t%d: the ledger falls from epoch %lld, seq %lld, settled %lld to %lld, %lld, %lld", type, (long long)before.epoch,
               (long long)before.end.seq, (long long)before.settled, (long long)now.epoch, (long long)now.end.seq, (long long)now.settled);
  if (now.epoch == before.epoch && now.has_owner && memcmp(&now.owner, &before.owner, sizeof now.owner) != 0)
    world_fail("t%d: epoch %lld is given twice", type, (long long)now.epoch);
  if (now.epoch > before.epoch)
    fenced(type, &now);
  record->ledger = now;
  if (end_moved(&before.end, &now.end)) {
    if (caller != NULL && (caller->process != record->fencer.process || caller->incarnation != record->fencer.incarnation))
      world_fail("t%d: worker %d commits in epoch %lld, which is worker %d's", type, caller->process, (long long)now.epoch,
                 record->fencer.process);
    if (caller != NULL && server_lock_tool_holds(type))
      world_fail("t%d: worker %d commits in epoch %lld, while a command runs under its lock", type, caller->process, (long long)now.epoch);
    if (caller != NULL && server_paused(type))
      world_fail("t%d: worker %d commits in epoch %lld, while the type is paused", type, caller->process, (long long)now.epoch);
    if (!world.failed)
      walk(type, &before.end, &now.end);
  }
  if (!world.failed && now.clean && !before.clean)
    clean_check(type, &now);
  if (!world.failed && now.settled > before.settled)
    settled_rose(type, before.settled, now.settled);
}

/* ---- everything ---- */

static void check_messages(int type)
{
  for (int64_t i = 0; i < queue_message_count(type); i++) {
    const struct message *message = queue_message(type, i);
    if (!message->inserted || message->foreign != FOREIGN_NOT)
      continue;
    if (!message->queued && message->seq == 0)
      world_fail("lost: message %lld of producer %d of t%d is neither in the queue nor in committed file data", (long long)message->number,
                 message->producer, type);
    if (message->queued && message->seq != 0 && message->seq <= records[type].ledger.settled)
      world_fail("message %lld of producer %d of t%d is settled, and in the queue", (long long)message->number, message->producer, type);
  }
}

void checks_full(bool over)
{
  for (int type = 0; type < chaos_plan.types && !world.failed; type++) {
    check_messages(type);
    checks_chain(type);
    if (over && !world.failed)
      checks_chain_offline(type);
  }
  disk_check();
}
