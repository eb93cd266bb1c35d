#include "lock/private.h"

#include <stdlib.h>

struct listing {
  struct pawl_entry *entries;
  size_t count, room;
  bool no_memory;
  struct error foreign; /* says why a document is not a lock's; "": there is none */
};

/* NULL: there is no memory for it. */
static struct pawl_entry *entry_add(struct listing *listing, const char *name, const struct lock_holder *who)
{
  if (listing->count == listing->room) {
    size_t room = listing->room > 0 ? 2 * listing->room : 16;
    struct pawl_entry *entries = realloc(listing->entries, room * sizeof *entries);
    listing->no_memory = listing->no_memory || entries == NULL;
    if (entries == NULL)
      return NULL;
    listing->entries = entries;
    listing->room = room;
  }
  struct pawl_entry *entry = &listing->entries[listing->count++];
  *entry = (struct pawl_entry){.pid = who->pid, .slot = -1};
  snprintf(entry->name, sizeof entry->name, "%s", name);
  const struct lock_holder_shown shown = lock_holder_show(who);
  bool fits = who->host[0] != '\0' && strlen(shown.text) < sizeof entry->host; /* never a character in part */
  memcpy(entry->host, fits ? shown.text : who->host, fits ? strlen(shown.text) + 1 : sizeof entry->host);
  snprintf(entry->program, sizeof entry->program, "%s", who->program);
  return entry;
}

static void add_holder(void *context, const char *name, int slot, const struct lock_view *view, const char *problem)
{
  struct listing *listing = context;
  if (problem != NULL)
    error_set(&listing->foreign, "%s", problem);
  struct pawl_entry *entry = problem == NULL ? entry_add(listing, name, &view->holder) : NULL;
  if (entry == NULL)
    return;
  entry->slot = slot;
  entry->held_ms = view->held_ms;
  entry->left_ms = view->left_ms;
}

static void add_waiter(void *context, const char *name, int place, const struct lock_holder *who, bool counts)
{
  struct pawl_entry *entry = entry_add(context, name, who);
  (void)counts;
  if (entry != NULL)
    entry->place = place;
}

static int compare(const void *a, const void *b)
{
  const struct pawl_entry *left = a, *right = b;
  int names = strcmp(left->name, right->name);
  if (names != 0)
    return names;
  if ((left->slot < 0) != (right->slot < 0))
    return left->slot < 0 ? 1 : -1;
  return left->slot != right->slot ? left->slot - right->slot : left->place - right->place;
}

enum pawl_result pawl_list(struct pawl *pawl, const char *name, struct pawl_entry *entries, size_t room, size_t *count,
                           struct pawl_error *error)
{
  struct error wrong = {.text = ""};
  struct listing listing = {.count = 0};
  if (!handle_is_mine(pawl, error))
    return PAWL_FORKED;
  if (count == NULL || (entries == NULL && room > 0) || (name != NULL && !type_name_valid(name)))
    return result_set(error, PAWL_INVALID, "listing locks: no valid name, or no place for the entries");
  enum outcome outcome = lock_list(pawl->store, name, add_holder, &listing, &wrong);
  if (outcome == OUTCOME_YES)
    outcome = lock_list_waiters(pawl->store, name, add_waiter, &listing, &wrong);
  enum pawl_result result = PAWL_OK;
  if (outcome != OUTCOME_YES)
    result = result_set(error, result_of_error(&wrong, outcome == OUTCOME_REFUSED), "listing locks: %s", wrong.text);
  else if (listing.no_memory)
    result = result_set(error, PAWL_MEMORY, "listing locks: no memory");
  else if (listing.foreign.text[0] != '\0')
    result = result_set(error, PAWL_FOREIGN, "listing locks: %s", listing.foreign.text);
  if (listing.count > 0)
    qsort(listing.entries, listing.count, sizeof *listing.entries, compare);
  for (size_t i = 0; i < listing.count && i < room; i++)
    entries[i] = listing.entries[i];
  *count = listing.count;
  free(listing.entries);
  return result;
}
