/*
 * verify: --verify reads everything and says one verdict a type (or FILE):
 *
 *   t1: ok, 3 segments, 812 blocks, 40000 documents, 4000000 messages, 1.1 GiB, link 9f...
 *                              all there, all checksums and links right
 *   t1: damaged, ...           committed documents are lost, or bytes are not what they were; exit 3
 *   t1: doubtful, ...          --deep only: intact, but messages that should not be there so; exit 3
 *   t1: missing, ...           the ledger names a file that is not in DIR; exit 3
 *   t1: unknown, ...           the ledger does not lead to what is there; exit 3
 *   t1: stale ledger, ...      more is committed than the ledger knows (stale); exit 3
 *   t1: not a pawl file, ...   exit 3
 *   t1: newer, ...             a later format, not judged; exit 4
 *   t1: absent, ...            there is nothing to verify, which is never ok; exit 1
 *   t1: unreadable, ...        the system said so, or the ledger could not be asked; exit 1
 *
 * What is unconfirmed, or an uncommitted tail, is told last and is normal. Damage is always passed over to tell all of it. The bytes
 * are those of the files, headers included, up to the last block.
 *
 * --deep looks inside every message too. Doubtful: `type` is not the type's; an `_id` comes again among about the last
 * million documents (a table of fixed size remembers 64-bit hashes, so that memory is bounded: 16 MiB). Only told: documents
 * that are malformed inside, for they are the producer's, and blocks that hold another number of messages than their marker says.
 */
#ifndef PAWL_TOOLS_DUMP_VERIFY_H
#define PAWL_TOOLS_DUMP_VERIFY_H

#include "tools/dump/source.h"

/* A verdict on --dir as a whole, as no type in it can be judged. `there`: it can be read; `what` says what is wrong. */
void verify_directory(struct dump *dump, bool there, const char *what);

/* `name`: the type, or the FILE as it was given. `loaded`, `error`: how it could be opened. */
void verify_source(struct dump *dump, const struct source *source, const char *name, enum read_status loaded, const struct error *error);

#endif
