#include "producer.h"
#include "chaos.h"
#include "process.h"
#include "queue.h"
#include "server.h"
#include "world.h"

enum { PRODUCERS_MAX = 4, BURST_MAX = 12, BACKLOG_MAX = 120 };

static struct producer {
  int type, index;
  int64_t clock_ms, number, id;
  struct message *pending; /* sent, and not yet acknowledged */
} producers[TYPES_MAX][PRODUCERS_MAX];

static struct message *message_next(struct producer *producer)
{
  int64_t id = (world.now_us / 1000 + 100000 + producer->clock_ms) * 16 + producer->index;
  producer->id = id > producer->id ? id : producer->id + 16 * world_between(1, 3);
  return queue_message_new(producer->type, producer->index, ++producer->number, producer->id);
}

static void insert_one(struct producer *producer)
{
  struct message *message = producer->pending != NULL ? producer->pending : message_next(producer);
  producer->pending = NULL;
  if (message->inserted)
    return; /* the insert was confirmed after all */
  queue_insert(message);
  if (server_in_election())
    producer->pending = message; /* sent again until it is acknowledged */
}

static void produce(void *context, uint64_t argument)
{
  struct producer *producer = context;
  (void)argument;
  if (!world.faults)
    return;
  int64_t burst = world_chance(0.5) ? 1 : world_between(1, BURST_MAX);
  bool waits = (producer->pending != NULL && server_in_election()) || queue_length(producer->type) > BACKLOG_MAX;
  for (int64_t i = 0; i < burst && !waits; i++) {
    insert_one(producer);
    waits = producer->pending != NULL;
  }
  if (producer->index % 2 == 0) /* the other producers insert without a wake-up */
    processes_wake(-1, producer->type, WAKEUP_MESSAGE);
  world_at(world.now_us + (int64_t)((double)chaos_plan.insert_us * world_log_between(0.05, 5)), produce, producer, 0);
}

void producers_begin(void)
{
  for (int type = 0; type < chaos_plan.types; type++)
    for (int i = 0; i < chaos_plan.producers; i++) {
      struct producer *producer = &producers[type][i];
      *producer = (struct producer){.type = type, .index = i, .clock_ms = world_between(0, 3000)};
      world_at(world_between(0, SECONDS), produce, producer, 0);
    }
}
