#include "worker/work_item.h"
#include "storage/bundle.h"

#include <stdlib.h>

struct work_item *work_item_new(void)
{
  struct work_item *item = calloc(1, sizeof *item);
  if (item != NULL)
    batch_init(&item->batch);
  return item;
}

void work_item_free(struct work_item *item)
{
  if (item == NULL)
    return;
  for (size_t i = 0; i < item->ids_count; i++)
    bson_destroy(item->ids[i]);
  free(item->ids);
  batch_deinit(&item->batch);
  free(item);
}

size_t work_item_ids_bytes(const struct work_item *item)
{
  size_t bytes = 0;
  for (size_t i = 0; i < item->ids_count; i++)
    bytes += item->ids[i]->len;
  return bytes;
}

int64_t work_item_bytes(const struct work_item *item)
{
  return item != NULL ? (int64_t)(item->batch.size + work_item_ids_bytes(item)) : 0;
}

int64_t work_item_ids_named(const bson_t *ids)
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
static bson_t *ids_open(struct work_item *item, size_t bytes)
{
  if (item->ids_count > 0 && item->ids[item->ids_count - 1]->len + bytes <= WORK_ITEM_IDS_BYTES_MAX)
    return item->ids[item->ids_count - 1];
  bson_t **ids = realloc(item->ids, (item->ids_count + 1) * sizeof *ids);
  if (ids == NULL)
    return NULL;
  item->ids = ids;
  return item->ids[item->ids_count++] = bson_new();
}

bool work_item_add_id(struct work_item *item, const struct element *id)
{
  bson_t *ids = ids_open(item, id->bytes + 16);
  if (ids == NULL || !message_id_append(ids, "0", id)) /* a server does not look at an array's keys; one constant key saves bytes */
    return false;
  item->documents++;
  return true;
}

enum work_item_put work_item_put(struct work_item *item, const struct work_item_caps *caps, const uint8_t *document, size_t bytes,
                                 struct element *id)
{
  if (item->documents >= caps->documents || (item->documents > 0 && (int64_t)(item->batch.bytes + bytes) > caps->bytes))
    return ITEM_FULL;
  if (message_id_find(document, bytes, id) != NULL)
    return ITEM_UNUSABLE;
  bool put = work_item_add_id(item, id) && batch_add(&item->batch, document, bytes, bundle_items(document, bytes));
  return put ? ITEM_PUT : ITEM_NO_MEMORY;
}

int64_t work_item_oldest_s(const struct work_item *item)
{
  struct elements elements;
  struct element id;
  if (item->ids_count == 0)
    return -1;
  elements_init(&elements, bson_get_data(item->ids[0]), item->ids[0]->len);
  if (!elements_next(&elements, &id) || id.type != BSON_TYPE_OID)
    return -1;
  return (int64_t)id.value[0] << 24 | (int64_t)id.value[1] << 16 | (int64_t)id.value[2] << 8 | (int64_t)id.value[3];
}

bool work_item_range(const struct work_item *item, struct element *first, struct element *last)
{
  struct elements elements;
  if (item->ids_count == 0)
    return false;
  const bson_t *begin = item->ids[0], *end = item->ids[item->ids_count - 1];
  elements_init(&elements, bson_get_data(begin), begin->len);
  if (!elements_next(&elements, first))
    return false;
  elements_init(&elements, bson_get_data(end), end->len);
  while (elements_next(&elements, last))
    ;
  return true;
}
