#include "worker/load.h"
#include "storage/bundle.h"

#include <stdlib.h>

struct load *load_new(void)
{
  struct load *load = calloc(1, sizeof *load);
  if (load != NULL)
    batch_init(&load->batch);
  return load;
}

void load_free(struct load *load)
{
  if (load == NULL)
    return;
  for (size_t i = 0; i < load->ids_count; i++)
    bson_destroy(load->ids[i]);
  free(load->ids);
  batch_deinit(&load->batch);
  free(load);
}

size_t load_ids_bytes(const struct load *load)
{
  size_t bytes = 0;
  for (size_t i = 0; i < load->ids_count; i++)
    bytes += load->ids[i]->len;
  return bytes;
}

int64_t load_ids_named(const bson_t *ids)
{
  struct elements elements;
  struct element id;
  int64_t named = 0;
  elements_init(&elements, bson_get_data(ids), ids->len);
  while (elements_next(&elements, &id))
    named++;
  return named;
}

/* The array that the next id goes into. */
static bson_t *ids_open(struct load *load, size_t bytes)
{
  if (load->ids_count > 0 && load->ids[load->ids_count - 1]->len + bytes <= LOAD_IDS_BYTES_MAX)
    return load->ids[load->ids_count - 1];
  bson_t **ids = realloc(load->ids, (load->ids_count + 1) * sizeof *ids);
  if (ids == NULL)
    return NULL;
  load->ids = ids;
  return load->ids[load->ids_count++] = bson_new();
}

bool load_add_id(struct load *load, const struct element *id)
{
  bson_t *ids = ids_open(load, id->bytes + 16);
  if (ids == NULL || !message_id_append(ids, "0", id)) /* a server does not look at an array's keys; one constant key saves bytes */
    return false;
  load->messages++;
  return true;
}

enum load_put load_put(struct load *load, const struct load_caps *caps, const uint8_t *document, size_t bytes, struct element *id)
{
  if (load->messages >= caps->messages || (load->messages > 0 && (int64_t)(load->batch.bytes + bytes) > caps->bytes))
    return LOAD_FULL;
  if (message_id_find(document, bytes, id) != NULL)
    return LOAD_UNUSABLE;
  bool put = load_add_id(load, id) && batch_add(&load->batch, document, bytes, bundle_items(document, bytes));
  return put ? LOAD_PUT : LOAD_NO_MEMORY;
}

bool load_range(const struct load *load, struct element *first, struct element *last)
{
  struct elements elements;
  if (load->ids_count == 0)
    return false;
  const bson_t *begin = load->ids[0], *end = load->ids[load->ids_count - 1];
  elements_init(&elements, bson_get_data(begin), begin->len);
  if (!elements_next(&elements, first))
    return false;
  elements_init(&elements, bson_get_data(end), end->len);
  while (elements_next(&elements, last))
    ;
  return true;
}
