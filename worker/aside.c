#include "worker/aside.h"

#include <stdlib.h>

enum {
  KEPT_MS = 2 * ASIDE_MS_MAX,
  NAMED_KEPT_MS = 3600000, /* of a type with documents that cannot be taken */
};

/* In the order of their names. The place of the type, or where it would be. */
static size_t place_of(const struct aside *aside, const char *type, bool *there)
{
  size_t low = 0, high = aside->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(aside->types[middle].type, type) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  *there = low < aside->count && strcmp(aside->types[low].type, type) == 0;
  return low;
}

static struct aside_type *find(const struct aside *aside, const char *type)
{
  bool there;
  size_t place = place_of(aside, type, &there);
  return there ? &aside->types[place] : NULL;
}

static void drop(struct aside *aside, size_t place)
{
  queue_marks_deinit(&aside->types[place].memory.marks);
  aside->count--;
  memmove(&aside->types[place], &aside->types[place + 1], (aside->count - place) * sizeof *aside->types);
}

static void make_room(struct aside *aside)
{
  size_t first = 0;
  if (aside->count < ASIDE_MAX)
    return;
  for (size_t i = 1; i < aside->count; i++)
    if (aside->types[i].until_ms < aside->types[first].until_ms)
      first = i;
  drop(aside, first);
}

/* NULL: no memory; the type is taken up again at once, which is no harm. */
static struct aside_type *add(struct aside *aside, const char *type)
{
  bool there;
  make_room(aside);
  if (aside->count == aside->room) {
    size_t room = aside->room > 0 ? 2 * aside->room : 16;
    struct aside_type *types = realloc(aside->types, room * sizeof *types);
    if (types == NULL)
      return NULL;
    aside->types = types;
    aside->room = room;
  }
  size_t place = place_of(aside, type, &there);
  struct aside_type *added = &aside->types[place];
  memmove(added + 1, added, (aside->count - place) * sizeof *added);
  aside->count++;
  *added = (struct aside_type){.grown_ms = 0};
  snprintf(added->type, sizeof added->type, "%s", type);
  return added;
}

void aside_put(struct aside *aside, const char *type, struct aside_pause pause, struct aside_memory *memory, int64_t now_ms)
{
  struct aside_type *put = find(aside, type);
  if (put == NULL && (put = add(aside, type)) == NULL)
    return;
  int64_t twice = 2 * put->grown_ms;
  if (pause.ms == 0)
    pause.ms = put->grown_ms = twice < ASIDE_MS ? ASIDE_MS : twice > ASIDE_MS_MAX ? ASIDE_MS_MAX : twice;
  put->firm = pause.firm;
  put->since_ms = now_ms;
  put->until_ms = now_ms + pause.ms;
  queue_marks_deinit(&put->memory.marks);
  put->memory = *memory;
  *memory = (struct aside_memory){.told = STORAGE_UNSEEN};
}

void aside_served(struct aside *aside, const char *type)
{
  struct aside_type *found = find(aside, type);
  if (found != NULL)
    found->grown_ms = 0;
}

bool aside_has(const struct aside *aside, const char *type, int64_t now_ms)
{
  const struct aside_type *found = find(aside, type);
  return found != NULL && now_ms < found->until_ms;
}

size_t aside_count(const struct aside *aside, int64_t now_ms)
{
  size_t count = 0;
  for (size_t i = 0; i < aside->count; i++)
    count += now_ms < aside->types[i].until_ms;
  return count;
}

bool aside_wake(struct aside *aside, const char *type, int64_t now_ms)
{
  struct aside_type *found = find(aside, type);
  if (found == NULL)
    return true;
  int64_t least_ms = now_ms - found->since_ms >= ASIDE_MS ? now_ms : found->since_ms + ASIDE_MS;
  if (found->until_ms > least_ms && !found->firm)
    found->until_ms = least_ms;
  return now_ms >= found->until_ms;
}

struct aside_memory aside_take_memory(struct aside *aside, const char *type)
{
  struct aside_memory nothing = {.told = STORAGE_UNSEEN}, taken;
  struct aside_type *found = find(aside, type);
  if (found == NULL)
    return nothing;
  taken = found->memory;
  found->memory = nothing;
  return taken;
}

void aside_calm(struct aside *aside, const struct type_list *found, const struct type_list *held, const struct type_range *covered)
{
  for (size_t i = 0; i < aside->count; i++) {
    const char *type = aside->types[i].type;
    if ((type_range_has(covered, type) && !type_list_has(found, type)) || type_list_has(held, type))
      aside->types[i].grown_ms = 0;
  }
}

void aside_forget(struct aside *aside, int64_t now_ms)
{
  for (size_t i = aside->count; i-- > 0;)
    if (now_ms - aside->types[i].until_ms > (queue_marks_name(&aside->types[i].memory.marks) ? NAMED_KEPT_MS : KEPT_MS))
      drop(aside, i);
}
