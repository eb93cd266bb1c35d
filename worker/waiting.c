#include "worker/waiting.h"

#include <stdlib.h>

static bool spare_make(struct waiting *waiting, size_t room)
{
  if (room <= waiting->spare_room)
    return true;
  struct waiting_type *spare = realloc(waiting->spare, room * sizeof *spare);
  if (spare == NULL)
    return false;
  waiting->spare = spare;
  waiting->spare_room = room;
  return true;
}

/* The place of the first one that is not before it. */
static size_t place_of(const struct waiting *waiting, const char *type)
{
  size_t low = 0, high = waiting->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(waiting->types[middle].type, type) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool is_at(const struct waiting *waiting, size_t place, const char *type)
{
  return place < waiting->count && strcmp(waiting->types[place].type, type) == 0;
}

static void spares_swap(struct waiting *waiting, size_t count)
{
  struct waiting_type *types = waiting->types;
  size_t room = waiting->room;
  waiting->types = waiting->spare;
  waiting->room = waiting->spare_room;
  waiting->count = waiting->left = count;
  waiting->spare = types;
  waiting->spare_room = room;
}

bool waiting_take(struct waiting *waiting, const struct type_list *found, const struct type_range *covered, const char *turn,
                  waiting_filter *wanted, const void *context, int64_t now_ms)
{
  size_t count = 0, old = 0, new = 0;
  if (!spare_make(waiting, waiting->count + found->count))
    return false;
  while (old < waiting->count || new < found->count) {
    int order = old == waiting->count ? 1 : new == found->count ? -1 : strcmp(waiting->types[old].type, found->names[new]);
    const char *type = order < 0 ? waiting->types[old].type : found->names[new];
    int64_t since_ms = order <= 0 ? waiting->types[old].since_ms : -1;
    bool stays = order >= 0 || (since_ms >= 0 && !type_range_has(covered, type));
    bool again = count > 0 && strcmp(waiting->spare[count - 1].type, type) == 0;
    if (stays && !again && wanted(context, type)) {
      struct waiting_type *place = &waiting->spare[count++];
      snprintf(place->type, sizeof place->type, "%s", type);
      place->since_ms = since_ms >= 0 ? since_ms : now_ms;
    }
    old += order <= 0;
    new += order >= 0;
  }
  spares_swap(waiting, count);
  waiting->next = place_of(waiting, turn);
  waiting->next += is_at(waiting, waiting->next, turn);
  return true;
}

static struct waiting_type *next(struct waiting *waiting)
{
  if (waiting->left == 0)
    return NULL;
  while (waiting->types[waiting->next % waiting->count].since_ms < 0)
    waiting->next++;
  return &waiting->types[waiting->next % waiting->count];
}

int64_t waiting_next_since(struct waiting *waiting)
{
  const struct waiting_type *first = next(waiting);
  return first != NULL ? first->since_ms : -1;
}

const char *waiting_next(struct waiting *waiting)
{
  struct waiting_type *first = next(waiting);
  if (first == NULL)
    return NULL;
  first->since_ms = -1;
  waiting->left--;
  return first->type;
}

bool waiting_has(const struct waiting *waiting, const char *type)
{
  size_t place = place_of(waiting, type);
  return is_at(waiting, place, type) && waiting->types[place].since_ms >= 0;
}

void waiting_drop(struct waiting *waiting, const char *type)
{
  if (!waiting_has(waiting, type))
    return;
  waiting->types[place_of(waiting, type)].since_ms = -1;
  waiting->left--;
}

size_t waiting_count(const struct waiting *waiting, int64_t waited_ms, int64_t now_ms)
{
  size_t count = 0;
  for (size_t i = 0; i < waiting->count; i++)
    count += waiting->types[i].since_ms >= 0 && now_ms - waiting->types[i].since_ms >= waited_ms;
  return count;
}
