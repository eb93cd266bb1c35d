/*
 * verify: --verify reads everything and prints one verdict per type (or FILE):
 *
 *   t1: ok, 3 segments, 812 blocks, 40000 documents, 4000000 messages, 1.1 GiB, link 9f...
 *                              complete, all checksums and links correct
 *   t1: damaged, ...           committed documents are lost, or bytes have changed; exit 3
 *   t1: doubtful, ...          --deep only: intact, but with messages that should not be there; exit 3
 *   t1: missing, ...           the ledger names a file that is not in DIR; exit 3
 *   t1: unknown, ...           the ledger does not lead to the files in DIR; exit 3
 *   t1: stale ledger, ...      more is committed than the ledger has (stale); exit 3
 *   t1: not a pawl file, ...   exit 3
 *   t1: newer, ...             a later format, not judged; exit 4
 *   t1: absent, ...            there is nothing to verify, which is never ok; exit 1
 *   t1: unreadable, ...        the system reported an error, or the ledger could not be read; exit 1
 *
 * Unconfirmed messages and an uncommitted tail are reported last, and are normal. The walk always continues after damage, to report all of
 * it. The bytes are those of the files, headers included, up to the last block.
 *
 * --deep also checks the inside of every message. Doubtful: a `type` is there and not the type's; an `_id` is repeated among about the last
 * million documents (a table of fixed size holds 64-bit hashes, so that memory is bounded: 16 MiB). Reported only: documents that are
 * malformed inside, because their content is the producer's, and blocks whose number of messages differs from their marker.
 */
#ifndef PAWL_TOOLS_DUMP_VERIFY_H
#define PAWL_TOOLS_DUMP_VERIFY_H

#include "tools/dump/source.h"

/* Prints a verdict on --dir as a whole, as no type in it can be judged. `there`: --dir can be read; `what` says what is wrong. */
void verify_directory(struct dump *dump, bool there, const char *what);

/* `name`: the type, or the FILE as it was given. `loaded`, `error`: the result of opening it. */
void verify_source(struct dump *dump, const struct source *source, const char *name, enum read_status loaded, const struct error *error);

#endif
