#include "checks.h"
#include "process.h"
#include "storage/chain.h"
#include "world.h"

/* What a reader of the whole chain found. */
struct found {
  int64_t messages; /* all messages in order; each of the first ones equals the committed message of its seq */
  int64_t blocks_uncommitted;
};

static bool block_matches(int type, const struct reader *reader, struct found *found)
{
  int64_t committed_count;
  struct message *const *committed = checks_committed(type, &committed_count);
  const uint8_t *document = reader->messages;
  found->blocks_uncommitted += found->messages >= committed_count;
  for (uint32_t i = 0; i < reader->block.count; i++, found->messages++) {
    uint32_t bytes = (uint32_t)document[0] | (uint32_t)document[1] << 8 | (uint32_t)document[2] << 16 | (uint32_t)document[3] << 24;
    if (found->messages < committed_count &&
        (committed[found->messages]->bytes != bytes || memcmp(committed[found->messages]->document, document, bytes) != 0))
      return false;
    document += bytes;
  }
  return true;
}

static enum read_status chain_read(int type, const struct committed *end, struct found *found, struct error *error)
{
  struct chain chain;
  struct chain_reader at;
  enum read_status status = chain_load(&chain, "/files", type_name(type), end, 0, error);
  if (status == READ_OK && chain.count > 0) {
    chain_reader_init(&at, "/files", &chain);
    while ((status = chain_reader_next(&at, error)) == READ_OK)
      if (at.reader.block.kind == BLOCK_DATA && !block_matches(type, &at.reader, found)) {
        error_set(error, "it holds another message as seq %lld", (long long)found->messages + 1);
        status = READ_DAMAGED;
        break;
      }
    chain_reader_deinit(&at);
  } else if (status == READ_OK) {
    status = READ_END;
  }
  chain_free(&chain);
  return status;
}

void checks_chain(int type)
{
  struct found found = {0};
  struct error error = {.text = ""};
  int64_t committed;
  const struct ledger *ledger = checks_ledger_last(type);
  (void)checks_committed(type, &committed);
  if (ledger->end.file[0] == 0)
    return;
  if (chain_read(type, &ledger->end, &found, &error) != READ_END)
    world_fail("t%d: the reader refuses the committed chain: %.600s", type, error.text);
  else if (found.messages != committed)
    world_fail("t%d: the reader finds %lld messages, and %lld are committed", type, (long long)found.messages, (long long)committed);
}

void checks_chain_offline(int type)
{
  struct found found = {0};
  struct error error = {.text = ""};
  int64_t committed;
  (void)checks_committed(type, &committed);
  enum read_status status = chain_read(type, NULL, &found, &error);
  if (status != READ_END && status != READ_TAIL)
    world_fail("t%d: without the ledger the reader refuses the chain: %.600s", type, error.text);
  else if (found.messages < committed || found.blocks_uncommitted > 1)
    world_fail("t%d: without the ledger the reader finds %lld messages, %lld blocks beyond the end, and %lld messages are committed", type,
               (long long)found.messages, (long long)found.blocks_uncommitted, (long long)committed);
}
