#include "storage/chain.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- the segments in the directory ---- */

struct listing {
  const char *type; /* NULL: every type */
  char (*names)[FILE_NAME_SIZE];
  size_t count, size;
  bool failed;
};

static void listing_add(void *context, const char *name)
{
  struct listing *listing = context;
  char type[TYPE_BYTES_MAX + 1];
  int64_t epoch = 0;
  if (listing->type != NULL ? !segment_name_is(name, listing->type, &epoch) : !segment_name_parse(name, type, &epoch))
    return;
  if (listing->count == listing->size) {
    size_t size = listing->size == 0 ? 16 : 2 * listing->size;
    void *names = realloc(listing->names, size * sizeof *listing->names);
    listing->failed = listing->failed || names == NULL;
    if (names == NULL)
      return;
    listing->names = names;
    listing->size = size;
  }
  snprintf(listing->names[listing->count++], FILE_NAME_SIZE, "%s", name);
}

static int64_t name_epoch(const char *name)
{
  char type[TYPE_BYTES_MAX + 1];
  int64_t epoch = 0;
  return segment_name_parse(name, type, &epoch) ? epoch : 0;
}

static int by_epoch(const void *left, const void *right)
{
  int64_t a = name_epoch(left), b = name_epoch(right);
  return (a > b) - (a < b);
}

static MUST_CHECK enum read_status listing_load(struct listing *listing, const char *dir, struct error *error)
{
  enum file_status status = file_list(dir, listing_add, listing, error);
  if (status != FILE_OK)
    return status == FILE_ABSENT ? READ_ABSENT : READ_FAILED;
  if (listing->failed) {
    error_set(error, "%s: no memory for the names of its files", dir);
    return READ_FAILED;
  }
  if (listing->count > 0)
    qsort(listing->names, listing->count, sizeof *listing->names, by_epoch);
  return READ_OK;
}

/* ---- the newest ---- */

static bool predecessor_end(const struct segment_header *header, struct committed *end)
{
  memset(end, 0, sizeof *end);
  snprintf(end->file, sizeof end->file, "%s", header->predecessor);
  memcpy(end->uuid, header->predecessor_uuid, sizeof end->uuid);
  end->length = header->predecessor_length;
  end->tail = header->predecessor_tail;
  end->link = header->predecessor_link;
  end->seq = header->predecessor_seq;
  return header->predecessor[0] != 0;
}

/*
 * *orphan: the holder that made this segment was fenced before its commit. Then a later holder continued the predecessor: after the length
 * that the segment names, the predecessor has a valid block of a higher epoch than the segment's. READ_FAILED: that cannot be told.
 */
static MUST_CHECK enum read_status segment_is_orphan(const char *dir, const struct segment_header *header, bool *orphan,
                                                     struct error *error)
{
  struct committed end;
  struct reader reader;
  *orphan = false;
  if (!predecessor_end(header, &end))
    return READ_OK;
  enum read_status status = reader_open(&reader, dir, end.file, NULL, error);
  if (status != READ_OK)
    return status == READ_FAILED ? READ_FAILED : READ_OK;
  if (memcmp(reader.header.uuid, end.uuid, sizeof end.uuid) == 0 && (status = reader_place_after(&reader, end.tail, error)) == READ_OK &&
      reader.offset == end.length)
    while (!*orphan && (status = reader_next_marker(&reader, error)) == READ_OK)
      *orphan = reader.last.epoch > header->epoch;
  reader_close(&reader);
  return status == READ_FAILED ? READ_FAILED : READ_OK;
}

/*
 * A holder syncs the header before the ledger names the file, and writes blocks only after that. So a torn header was left by a crash,
 * unless bytes follow it.
 */
static enum read_status name_has_blocks(const char *dir, const char *name, bool *has_blocks, struct error *error)
{
  struct file file;
  int64_t size = 0;
  *has_blocks = false;
  enum file_status opened = file_open(&file, dir, name, FILE_READ, 0, error);
  if (opened != FILE_OK)
    return opened == FILE_ABSENT ? READ_OK : READ_FAILED;
  enum file_status status = file_size(&file, &size, error);
  *has_blocks = size > FORMAT_HEADER_BYTES;
  return file_close(&file, error) == FILE_OK && status == FILE_OK ? READ_OK : READ_FAILED;
}

/* READ_OK: this can be the newest segment. READ_ABSENT: it cannot. */
static enum read_status newest_try(const char *dir, const char *name, struct error *error)
{
  struct reader reader;
  struct error cause;
  bool has_blocks = false;
  enum read_status status = reader_open(&reader, dir, name, NULL, &cause);
  if (status == READ_DAMAGED) {
    enum read_status looked = name_has_blocks(dir, name, &has_blocks, error);
    if (looked != READ_OK)
      return looked;
    /* The header was written before the blocks. If it only became visible late, the second read finds it. */
    status = has_blocks ? reader_open(&reader, dir, name, NULL, &cause) : READ_ABSENT;
  }
  if (status == READ_OK) {
    struct segment_header header = reader.header;
    bool orphan = false;
    reader_close(&reader);
    status = segment_is_orphan(dir, &header, &orphan, error);
    return orphan ? READ_ABSENT : status;
  }
  *error = cause;
  return status;
}

/* The name `T.bin` has no epoch: *epoch is that in its header. 0 for any other name, or without a whole header. */
static MUST_CHECK enum read_status plain_name_epoch(const char *dir, const char *name, int64_t *epoch, struct error *error)
{
  struct reader reader;
  *epoch = 0;
  if (name_epoch(name) != 0)
    return READ_OK;
  enum read_status status = reader_open(&reader, dir, name, NULL, error);
  if (status != READ_OK)
    return status == READ_FAILED ? READ_FAILED : READ_OK;
  *epoch = reader.header.epoch;
  reader_close(&reader);
  return READ_OK;
}

/* Offline: finds the segment of the highest epoch that has a whole header and is not an orphan. *newest is its index; READ_END: none. */
static enum read_status newest_find(const char *dir, const struct listing *listing, size_t *newest, struct error *error)
{
  /* The names are sorted by rising epoch, `T.bin` first. The loop goes backwards, and tries `T.bin` where its header's epoch belongs. */
  int64_t plain = 0;
  bool tried = false;
  if (listing->count > 0 && plain_name_epoch(dir, listing->names[0], &plain, error) != READ_OK)
    return READ_FAILED;
  for (size_t left = listing->count; left > 0;) {
    bool turn = !tried && plain > 0 && (left == 1 || name_epoch(listing->names[left - 1]) < plain);
    size_t index = turn ? 0 : --left;
    if (index == 0 && tried)
      break;
    tried = tried || index == 0;
    enum read_status status = newest_try(dir, listing->names[index], error);
    *newest = index;
    if (status != READ_ABSENT)
      return status;
  }
  return READ_END;
}

/* ---- the walk ---- */

/* Loads `name` and checks that it is the segment that the ledger or its successor names (`end`; offline, the newest has none). */
static enum read_status segment_load(struct segment *segment, const char *dir, const char *type, const char *name,
                                     const struct committed *end, struct error *error)
{
  struct reader reader;
  memset(segment, 0, sizeof *segment);
  snprintf(segment->name, sizeof segment->name, "%s", name);
  segment->has_end = end != NULL;
  if (end != NULL)
    segment->end = *end;
  enum read_status status = reader_open(&reader, dir, name, end, error);
  if (status != READ_OK)
    return status;
  segment->header = reader.header;
  reader_close(&reader);
  if (strcmp(segment->header.type, type) != 0) {
    error_set(error, "%s: it holds messages of type %s", name, segment->header.type);
    return READ_DAMAGED;
  }
  if (name_epoch(name) != 0 && name_epoch(name) != segment->header.epoch) {
    error_set(error, "%s: it was made in epoch %" PRId64 ": its name is another file's", name, segment->header.epoch);
    return READ_DAMAGED;
  }
  return READ_OK;
}

/*
 * After READ_DAMAGED from segment_load, which set *error: tries to read the segment without its header. Nothing else names the predecessor.
 * READ_OK: it is headless. READ_DAMAGED: so it cannot be read either, and *error stays. READ_FAILED.
 */
static enum read_status segment_load_headless(struct segment *segment, const char *dir, const char *type,
                                              const struct segment_header *successor, struct error *error)
{
  struct reader reader;
  struct error cause;
  enum read_status status = reader_open_headless(&reader, dir, segment->name, segment->has_end ? &segment->end : NULL, &cause);
  if (status == READ_FAILED)
    *error = cause;
  if (status != READ_OK)
    return status == READ_FAILED ? READ_FAILED : READ_DAMAGED;
  segment->headless = true;
  segment->header = reader.header;
  reader_close(&reader);
  snprintf(segment->header.type, sizeof segment->header.type, "%s", type);
  if (successor != NULL) {
    segment->header.epoch = successor->predecessor_epoch;
    segment->header.number = successor->number - 1;
  }
  return READ_OK;
}

/* The number and epoch in a segment's header must be those that its successor records. */
static bool segment_fits_successor(const struct segment *segment, const struct segment_header *successor)
{
  return segment->header.number == successor->number - 1 && segment->header.epoch == successor->predecessor_epoch;
}

static MUST_CHECK bool chain_append(struct chain *chain, const struct segment *segment)
{
  struct segment *segments = realloc(chain->segments, (chain->count + 1) * sizeof *segments);
  if (segments == NULL)
    return false;
  chain->segments = segments;
  chain->segments[chain->count++] = *segment;
  return true;
}

/* Sets *older if there is an older segment with blocks. (A bare header belongs to an orphan, and proves nothing.) */
static enum read_status listing_older(const struct listing *listing, const char *dir, const char *name, bool *older, struct error *error)
{
  enum read_status status = READ_OK;
  *older = false;
  for (size_t i = 0; i < listing->count && status == READ_OK && !*older; i++)
    if (name_epoch(listing->names[i]) < name_epoch(name))
      status = name_has_blocks(dir, listing->names[i], older, error);
  return status;
}

/* The predecessor of the last segment found is missing. READ_OK: the chain now begins with that segment. */
static enum read_status chain_prune(struct chain *chain, const char *dir, const struct listing *listing, struct error *error)
{
  struct error cause = *error;
  bool older = false;
  enum read_status status = listing_older(listing, dir, chain->segments[chain->count - 1].name, &older, error);
  if (status != READ_OK)
    return status;
  *error = cause;
  chain->pruned = !older;
  return older ? READ_DAMAGED : READ_OK;
}

/* Walks from the newest segment back to the one that holds from_seq, and appends them newest first. */
static enum read_status chain_walk(struct chain *chain, const char *dir, const char *type, const char *newest,
                                   const struct committed *newest_end, int64_t from_seq, const struct listing *listing, struct error *error)
{
  char name[FILE_NAME_SIZE];
  struct committed end;
  snprintf(name, sizeof name, "%s", newest);
  if (newest_end != NULL)
    end = *newest_end;
  for (bool has_end = newest_end != NULL;; has_end = true) {
    struct segment segment;
    const struct segment_header *successor = chain->count > 0 ? &chain->segments[chain->count - 1].header : NULL;
    enum read_status status = segment_load(&segment, dir, type, name, has_end ? &end : NULL, error);
    if (status == READ_ABSENT)
      return successor == NULL ? READ_DAMAGED : chain_prune(chain, dir, listing, error);
    enum read_status usable = status == READ_DAMAGED ? segment_load_headless(&segment, dir, type, successor, error) : status;
    if (usable != READ_OK)
      return usable;
    if (successor != NULL && !segment_fits_successor(&segment, successor)) {
      error_set(error, "%s: it is not the segment that %s names as its predecessor", name, chain->segments[chain->count - 1].name);
      return READ_DAMAGED;
    }
    if (!chain_append(chain, &segment)) {
      error_set(error, "no memory for the list of segments of %s", type);
      return READ_FAILED;
    }
    if (segment.headless || segment.header.first_seq <= from_seq || !predecessor_end(&segment.header, &end))
      return status;
    if (name_epoch(end.file) >= segment.header.epoch) {
      error_set(error, "%s: it names %s, which cannot be older, as its predecessor", name, end.file);
      return READ_DAMAGED;
    }
    snprintf(name, sizeof name, "%s", end.file);
  }
}

static bool chain_holds(const struct chain *chain, const char *name)
{
  for (size_t i = 0; i < chain->count; i++)
    if (strcmp(chain->segments[i].name, name) == 0)
      return true;
  return false;
}

/* Puts the oldest segment first, and makes orphans of the rest of the listing (whose memory the chain takes over). */
static void chain_finish(struct chain *chain, struct listing *listing)
{
  for (size_t low = 0, high = chain->count; low + 1 < high; low++) {
    struct segment swap = chain->segments[low];
    chain->segments[low] = chain->segments[--high];
    chain->segments[high] = swap;
  }
  chain->orphans = listing->names;
  for (size_t i = 0; i < listing->count; i++)
    if (!chain_holds(chain, listing->names[i]))
      memmove(chain->orphans[chain->orphan_count++], listing->names[i], FILE_NAME_SIZE);
}

enum read_status chain_load(struct chain *chain, const char *dir, const char *type, const struct committed *end, int64_t from_seq,
                            struct error *error)
{
  struct listing listing = {.type = type};
  size_t newest = 0;
  memset(chain, 0, sizeof *chain);
  enum read_status status = listing_load(&listing, dir, error);
  if (status == READ_OK && end != NULL) {
    if (end->file[0] != 0)
      status = chain_walk(chain, dir, type, end->file, end, from_seq, &listing, error);
  } else if (status == READ_OK) {
    status = newest_find(dir, &listing, &newest, error);
    if (status == READ_OK || status == READ_DAMAGED)
      status = chain_walk(chain, dir, type, listing.names[newest], NULL, from_seq, &listing, error);
    else if (status == READ_END)
      status = READ_OK;
  }
  if (from_seq > 0) /* the walk did not see older segments, so it is unknown which files are orphans */
    listing.count = 0;
  chain_finish(chain, &listing);
  return status;
}

void chain_free(struct chain *chain)
{
  free(chain->segments);
  free(chain->orphans);
  memset(chain, 0, sizeof *chain);
}

/* ---- reading across segments ---- */

void chain_reader_init(struct chain_reader *at, const char *dir, const struct chain *chain)
{
  memset(at, 0, sizeof *at);
  at->dir = dir;
  at->chain = chain;
}

static void chain_reader_leave(struct chain_reader *at)
{
  if (at->open)
    reader_close(&at->reader);
  at->open = false;
}

void chain_reader_deinit(struct chain_reader *at)
{
  chain_reader_leave(at);
}

static enum read_status chain_reader_enter(struct chain_reader *at, size_t index, struct error *error)
{
  chain_reader_leave(at);
  at->index = index;
  if (index == at->chain->count)
    return READ_END;
  const struct segment *segment = &at->chain->segments[index];
  const struct committed *end = segment->has_end ? &segment->end : NULL;
  enum read_status status = (segment->headless ? reader_open_headless : reader_open)(&at->reader, at->dir, segment->name, end, error);
  if (status == READ_ABSENT)
    status = READ_DAMAGED;
  at->open = status == READ_OK;
  return status;
}

/* Seeks in the last segment that does not begin after the wanted seq or time. */
static enum read_status chain_reader_seek(struct chain_reader *at, int64_t seq, int64_t time_us, bool by_time, struct error *error)
{
  size_t index = 0;
  for (size_t i = 1; i < at->chain->count; i++) {
    const struct segment_header *header = &at->chain->segments[i].header;
    if (by_time ? header->created_us < time_us : header->first_seq <= seq)
      index = i;
  }
  enum read_status status = chain_reader_enter(at, index, error);
  if (status == READ_END)
    return READ_OK;
  if (status != READ_OK)
    return status;
  return by_time ? reader_seek_time(&at->reader, time_us, error) : reader_seek_seq(&at->reader, seq, error);
}

enum read_status chain_reader_seek_seq(struct chain_reader *at, int64_t seq, struct error *error)
{
  return chain_reader_seek(at, seq, 0, false, error);
}

enum read_status chain_reader_seek_time(struct chain_reader *at, int64_t time_us, struct error *error)
{
  return chain_reader_seek(at, 0, time_us, true, error);
}

enum read_status chain_reader_next(struct chain_reader *at, struct error *error)
{
  if (!at->open) {
    enum read_status status = chain_reader_enter(at, at->index, error);
    if (status != READ_OK)
      return status;
  }
  for (;;) {
    enum read_status status = reader_next(&at->reader, error);
    if (status != READ_END || at->index + 1 == at->chain->count)
      return status;
    status = chain_reader_enter(at, at->index + 1, error);
    if (status != READ_OK)
      return status;
  }
}

enum read_status chain_reader_pass_damage(struct chain_reader *at, struct error *error)
{
  if (at->open)
    return reader_pass_damage(&at->reader, error);
  /* The segment could not be opened at all: skip it. */
  if (at->index < at->chain->count)
    at->index++;
  return at->index < at->chain->count ? READ_OK : READ_END;
}

/* ---- types ---- */

static int by_name(const void *left, const void *right)
{
  return strcmp(left, right);
}

enum read_status chain_list_types(const char *dir, char (**types)[TYPE_BYTES_MAX + 1], size_t *count, struct error *error)
{
  struct listing listing = {0};
  *types = NULL;
  *count = 0;
  enum read_status status = listing_load(&listing, dir, error);
  if (status == READ_OK && listing.count > 0) {
    *types = malloc(listing.count * sizeof **types);
    if (*types == NULL) {
      error_set(error, "%s: no memory for the names of its types", dir);
      status = READ_FAILED;
    }
  }
  for (size_t i = 0; status == READ_OK && i < listing.count; i++) {
    char type[TYPE_BYTES_MAX + 1];
    int64_t epoch = 0;
    bool known = !segment_name_parse(listing.names[i], type, &epoch);
    for (size_t k = 0; k < *count && !known; k++)
      known = strcmp((*types)[k], type) == 0;
    if (!known)
      snprintf((*types)[(*count)++], TYPE_BYTES_MAX + 1, "%s", type);
  }
  if (*count > 1)
    qsort(*types, *count, sizeof **types, by_name);
  free(listing.names);
  return status;
}
