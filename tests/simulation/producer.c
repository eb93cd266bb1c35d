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
  double learns;           /* how likely it is before each burst that it reads whether the type has its own collection */
  bool own;                /* it has read that, and inserts nowhere else from then on */
  bool held;               /* it is stopped, so that the type may be shared again */
  struct message *pending; /* sent, and not yet acknowledged */
} producers[TYPES_MAX][PRODUCERS_MAX];

static struct message *message_next(struct producer *producer)
{
  int64_t id = (world.now_us / 1000 + 100000 + producer->clock_ms) * 16 + producer->index;
  producer->id = id > producer->id ? id : producer->id + 16 * world_between(1, 3);
  return queue_message_new(&(struct message){.type = producer->type,
                                             .producer = producer->index,
                                             .source = producer->own ? SOURCE_OWN : SOURCE_SHARED,
                                             .number = ++producer->number,
                                             .id = producer->id});
}

static void learn(struct producer *producer)
{
  struct ledger ledger;
  if (producer->own || !world_chance(producer->learns))
    return;
  server_ledger(producer->type, &ledger);
  producer->own = ledger.own;
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
  waits = waits || (producer->held && producer->pending == NULL);
  learn(producer);
  for (int64_t i = 0; i < burst && !waits; i++) {
    insert_one(producer);
    waits = producer->pending != NULL || producer->held;
  }
  if (producer->index % 2 == 0) /* the other producers insert without a wake-up */
    processes_wake(-1, producer->type, WAKEUP_MESSAGE);
  world_at(world.now_us + (int64_t)((double)chaos_plan.insert_us * world_log_between(0.05, 5)), produce, producer, 0);
}

void producers_hold(int type)
{
  for (int i = 0; i < chaos_plan.producers; i++)
    producers[type][i].held = true;
}

bool producers_wait(int type)
{
  for (int i = 0; i < chaos_plan.producers; i++)
    if (producers[type][i].pending != NULL && !producers[type][i].pending->inserted)
      return true;
  return false;
}

void producers_go_on(int type, bool shared)
{
  for (int i = 0; i < chaos_plan.producers; i++) {
    producers[type][i].held = false;
    producers[type][i].own = producers[type][i].own && !shared;
  }
}

/* Another program has a collection whose name is that of the type's own one. */
static void insert_foreign(int type)
{
  for (int64_t i = 0, count = world_between(1, 5); i < count; i++)
    queue_insert(queue_message_new(&(struct message){.type = type,
                                                     .source = SOURCE_OWN,
                                                     .foreign = chaos_may_be_own(type) ? FOREIGN_TYPE : FOREIGN_BARE,
                                                     .id = world_between(0, 4000000) * 16 + PRODUCERS_MAX + i}));
}

void producers_begin(void)
{
  for (int type = 0; type < chaos_plan.types; type++) {
    for (int i = 0; i < chaos_plan.producers; i++) {
      struct producer *producer = &producers[type][i];
      *producer = (struct producer){.type = type, .index = i, .clock_ms = world_between(0, 3000)};
      producer->learns = world_chance(0.2) ? 0 : world_log_between(0.02, 1);
      world_at(world_between(0, SECONDS), produce, producer, 0);
    }
    if (world_chance(0.3))
      insert_foreign(type);
  }
}
