#include "config/options.h"

#include <assert.h>
#include <stdlib.h>

/* A program without memory for its configuration cannot even report an error, so lack of memory is treated as a bug. */
char *config_keep(struct config *config, char *heap)
{
  char **owned = reallocarray(config->owned, config->owned_count + 1, sizeof *owned);
  assert(heap && owned);
  config->owned = owned;
  owned[config->owned_count++] = heap;
  return heap;
}
