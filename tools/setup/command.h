/*
 * command: what move sends to MongoDB, without concerns and time limits. Private to move.
 *
 * Pure; any thread. The caller destroys what is returned. end_ms: only as long as the server's clock is before it, in ms since 1970, which
 * is how a process that was frozen does nothing after the end of its lease; 0: always.
 */
#ifndef PAWL_TOOLS_SETUP_COMMAND_H
#define PAWL_TOOLS_SETUP_COMMAND_H

#include "tools/setup/move.h"

/*
 * Initializes *filter, for the one document in its queue: by its type, its `_id`, and with `whole` by all that is in it. Byte for byte but
 * for numbers of equal value and size.
 */
void command_filter_original(bson_t *filter, const struct original *original, bool whole, int64_t end_ms);
bson_t *command_insert(const char *collection, const bson_t *document);
/* The filter is destroyed. */
bson_t *command_find(const char *collection, bson_t *filter);
bson_t *command_find_copy(const uint8_t key[COPY_KEY_BYTES]);
/* In `refused`, by the document's `_id`. */
bson_t *command_find_by_id(const bson_t *document);
/* Only as it was read. */
bson_t *command_delete_original(const struct original *original, int64_t end_ms);
bson_t *command_delete_copy(const uint8_t key[COPY_KEY_BYTES], int64_t end_ms);
bson_t *command_delete_parts(const uint8_t key[COPY_KEY_BYTES], int64_t end_ms);

#endif
