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

bool load_add_id(struct load *load, const uint8_t *document, size_t bytes)
{
  bson_t message;
  bson_iter_t id;
  if (!bson_init_static(&message, document, bytes) || !bson_iter_init_find(&id, &message, "_id"))
    return false;
  /* The value is what lies between its key and the next element: its raw length is known without looking at its type. */
  size_t id_bytes = id.next_off - id.off;
  bson_t *ids = ids_open(load, id_bytes + 16);
  if (ids == NULL)
    return false;
  /* A server does not look at an array's keys; one constant key saves bytes. */
  if (!bson_append_iter(ids, "0", 1, &id))
    return false;
  load->messages++;
  return true;
}

bool load_add(struct load *load, const uint8_t *document, size_t bytes)
{
  return load_add_id(load, document, bytes) && batch_add(&load->batch, document, bytes, bundle_items(document, bytes));
}
