#include "tools/dump/stale.h"

#include <inttypes.h>

/* What a file alone proves. */
struct proof {
  const char *name;
  uint8_t uuid[16];
  int64_t committed; /* at least this many bytes are committed; 0: no proof after the place where the search began */
  int64_t epoch;     /* the highest */
};

/*
 * Searches from after the marker at `tail` (0: from the beginning) to the end of the file. READ_FAILED: the system does not give it; what
 * does not begin as a file of pawl proves nothing.
 */
static enum read_status proof_find(const char *dir, const char *name, int64_t tail, struct proof *proof, struct error *error)
{
  struct reader reader;
  bool ends_a_commit = false;
  *proof = (struct proof){.name = name};
  enum read_status status = reader_open(&reader, dir, name, NULL, error);
  if (status != READ_OK)
    return status == READ_FAILED ? READ_FAILED : READ_END;
  memcpy(proof->uuid, reader.header.uuid, sizeof proof->uuid);
  proof->epoch = reader.header.epoch;
  status = reader_place_after(&reader, tail, error);
  while (status == READ_OK && (status = reader_next_marker(&reader, error)) == READ_OK) {
    if (ends_a_commit)
      proof->committed = reader.block.offset;
    ends_a_commit = reader.block.kind == BLOCK_DATA || reader.block.kind == BLOCK_CLOSE;
    proof->epoch = reader.block.epoch > proof->epoch ? reader.block.epoch : proof->epoch;
  }
  if (status == READ_DAMAGED && reader.proof_offset > 0)
    proof->committed = reader.proof_offset;
  reader_close(&reader);
  return status == READ_FAILED ? READ_FAILED : READ_OK;
}

static bool ledger_explains(const struct ledger_answer *ledger, const struct chain *chain, const struct proof *proof, int64_t searched_from)
{
  if (proof->epoch > ledger->epoch)
    return false;
  if (proof->committed <= searched_from)
    return true;
  if (memcmp(ledger->end.uuid, proof->uuid, sizeof proof->uuid) == 0)
    return ledger->end.length >= proof->committed;
  for (size_t i = 0; i < chain->count; i++)
    if (memcmp(chain->segments[i].header.uuid, proof->uuid, sizeof proof->uuid) == 0)
      return chain->segments[i].has_end && chain->segments[i].end.length >= proof->committed;
  return false;
}

static void stale_say(const struct source *source, const struct dump *dump, const struct ledger_answer *ledger, const struct proof *proof,
                      struct error *why)
{
  const char *db = config_db_name(dump->config);
  if (proof->epoch > ledger->epoch)
    error_set(why, "%s was written in epoch %" PRId64 ", and the ledger of type %s in database %s is at epoch %" PRId64, proof->name,
              proof->epoch, source->type, db, ledger->epoch);
  else if (memcmp(ledger->end.uuid, proof->uuid, sizeof proof->uuid) == 0)
    error_set(why, "%s proves %" PRId64 " bytes committed, and the ledger of type %s in database %s ends at %" PRId64, proof->name,
              proof->committed, source->type, db, ledger->end.length);
  else
    error_set(why, "%s proves %" PRId64 " bytes committed, and the ledger of type %s in database %s does not lead to it", proof->name,
              proof->committed, source->type, db);
}

/* `from`: the committed end that was known when the files were read. */
static enum stale proof_judge(const struct source *source, const struct dump *dump, const struct proof *proof, int64_t from,
                              struct error *why)
{
  struct ledger_answer later = source->ledger;
  struct chain chain = {0};
  enum stale stale = STALE_NOT;
  if (ledger_explains(&source->ledger, &source->chain, proof, from))
    return STALE_NOT;
  enum read_status status = source_ask_again(source, dump, &later, &chain, why);
  if (status == READ_FAILED)
    stale = STALE_FAILED;
  else if (!ledger_explains(&later, &chain, proof, from)) {
    stale_say(source, dump, &later, proof, why);
    stale = STALE_YES;
  }
  chain_free(&chain);
  return stale;
}

/* What the file proves from after `tail` on, whose committed end is `from`. */
static enum stale file_check(const struct source *source, const struct dump *dump, const char *name, int64_t tail, int64_t from,
                             struct error *why)
{
  struct proof proof;
  enum read_status found = proof_find(source->dir, name, tail, &proof, why);
  if (found != READ_OK)
    return found == READ_FAILED ? STALE_FAILED : STALE_NOT;
  return proof_judge(source, dump, &proof, from, why);
}

enum stale stale_check(const struct source *source, const struct dump *dump, struct error *why)
{
  const struct chain *chain = &source->chain;
  enum stale stale = STALE_NOT;
  if (chain->count > 0 && !source->over) {
    const struct segment *newest = &chain->segments[chain->count - 1];
    if (newest->has_end)
      stale = file_check(source, dump, newest->name, newest->end.tail, newest->end.length, why);
  }
  for (size_t i = 0; i < chain->orphan_count && stale == STALE_NOT; i++)
    stale = file_check(source, dump, chain->orphans[i], 0, 0, why);
  return stale;
}
