/*
 * aside: types that a worker has found, and does not take up again before some time is over: paused, held by others, or without a
 * message that can be taken. And what it remembers of their queues. Pure; the loop's thread.
 */
#ifndef PAWL_WORKER_ASIDE_H
#define PAWL_WORKER_ASIDE_H

#include "worker/queue.h"
#include "worker/trust.h"
#include "worker/type_rules.h"

enum {
  ASIDE_MAX = 20000, /* as a look finds at most. Then the one whose time is over first is forgotten */
  ASIDE_MS = 1000,   /* and doubling to */
  ASIDE_MS_MAX = 60000,
};

/* What was logged of a type, for the next time that it is taken up. */
struct aside_memory {
  struct queue_marks marks; /* documents that cannot be taken */
  enum storage_view told;
};

/* For how long; 0 ms: ASIDE_MS, and twice the last such pause each time. */
struct aside_pause {
  int64_t ms;
  bool firm; /* no wake-up makes it shorter */
};

struct aside_type {
  type_name type;
  int64_t since_ms, until_ms;
  int64_t grown_ms; /* the last one that was twice the one before, for the next */
  bool firm;
  struct aside_memory memory;
};

struct aside {
  struct aside_type *types;
  size_t count, room;
};

/* What the memory has passes to it. */
void aside_put(struct aside *aside, const char *type, struct aside_pause pause, struct aside_memory *memory, int64_t now_ms);
/* It did what it was taken up for: the next pause is a short one again. */
void aside_served(struct aside *aside, const char *type);
bool aside_has(const struct aside *aside, const char *type, int64_t now_ms);
/* How many have a pause that is not over. */
size_t aside_count(const struct aside *aside, int64_t now_ms);
/* A wake-up: a pause that is not firm ends as soon as it has lasted for ASIDE_MS. False: it goes on. */
bool aside_wake(struct aside *aside, const char *type, int64_t now_ms);
/* Gives the memory back; an empty one, if there is none. */
struct aside_memory aside_take_memory(struct aside *aside, const char *type);
/* Of those that have no messages, or that another process holds, the next pause is a short one again. Nothing is known of what was not
 * looked for, outside of `covered`. Both lists are sorted. */
void aside_calm(struct aside *aside, const struct type_list *found, const struct type_list *held, const struct type_range *covered);
/* Forgets those whose time has long been over. */
void aside_forget(struct aside *aside, int64_t now_ms);

#endif
