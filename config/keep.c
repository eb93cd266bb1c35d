#include "config/options.h"

#include <assert.h>
#include <stdlib.h>

/* Without the few bytes of its configuration a program cannot even say what is wrong, so no memory is treated as a bug. */
char *config_keep(struct config *config, char *heap)
{
  char **owned = reallocarray(config->owned, config->owned_count + 1, sizeof *owned);
  assert(heap && owned);
  config->owned = owned;
  owned[config->owned_count++] = heap;
  return heap;
}
