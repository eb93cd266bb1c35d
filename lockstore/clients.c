#include "lockstore/clients.h"
#include "lockstore/reach.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct generation {
  mongoc_client_pool_t *pool; /* or */
  mongoc_client_t *alone;
  int taken;
  bool left;
};

struct taken {
  struct taken *next;
  mongoc_client_t *client;
  struct generation *of;
};

struct clients {
  mongoc_uri_t *uri;
  bool alone;
  struct reach *reach; /* borrowed; NULL: nothing is to be told */
  pthread_mutex_t mutex;
  struct generation *now;
  struct taken *taken;
};

static void generation_free(struct generation *generation)
{
  if (generation && generation->pool)
    mongoc_client_pool_destroy(generation->pool);
  if (generation && generation->alone)
    mongoc_client_destroy(generation->alone);
  free(generation);
}

static struct generation *generation_new(const mongoc_uri_t *uri, bool alone, struct reach *reach, bson_error_t *reason)
{
  struct generation *generation = calloc(1, sizeof *generation);
  if (!generation)
    return NULL;
  if (alone)
    generation->alone = mongoc_client_new_from_uri_with_error(uri, reason);
  else
    generation->pool = mongoc_client_pool_new_with_error(uri, reason);
  if (generation->pool && reach)
    reach_watch(reach, generation->pool);
  if ((generation->alone && mongoc_client_set_error_api(generation->alone, MONGOC_ERROR_API_VERSION_2)) ||
      (generation->pool && mongoc_client_pool_set_error_api(generation->pool, MONGOC_ERROR_API_VERSION_2)))
    return generation;
  generation_free(generation);
  return NULL;
}

struct clients *clients_new(const mongoc_uri_t *uri, bool alone, struct reach *reach, bson_error_t *reason)
{
  struct clients *clients = calloc(1, sizeof *clients);
  if (!clients)
    return NULL;
  pthread_mutex_init(&clients->mutex, NULL);
  clients->alone = alone;
  clients->reach = reach;
  clients->uri = mongoc_uri_copy(uri);
  clients->now = generation_new(uri, alone, reach, reason);
  if (clients->now)
    return clients;
  clients_free(clients);
  return NULL;
}

void clients_free(struct clients *clients)
{
  if (!clients)
    return;
  assert(!clients->taken);
  generation_free(clients->now);
  mongoc_uri_destroy(clients->uri);
  pthread_mutex_destroy(&clients->mutex);
  free(clients);
}

/* One less is out. What was left is gone with the last of them, outside the mutex: that takes its time. */
static void generation_release(struct clients *clients, struct generation *generation)
{
  pthread_mutex_lock(&clients->mutex);
  bool over = --generation->taken == 0 && generation->left;
  pthread_mutex_unlock(&clients->mutex);
  if (over)
    generation_free(generation);
}

mongoc_client_t *clients_take(struct clients *clients)
{
  struct taken *taken = calloc(1, sizeof *taken);
  if (!taken)
    return NULL;
  pthread_mutex_lock(&clients->mutex);
  struct generation *generation = taken->of = clients->now;
  generation->taken++;
  pthread_mutex_unlock(&clients->mutex);
  taken->client = generation->alone ? generation->alone : mongoc_client_pool_pop(generation->pool);
  if (!taken->client) {
    generation_release(clients, generation);
    free(taken);
    return NULL;
  }
  pthread_mutex_lock(&clients->mutex);
  taken->next = clients->taken;
  clients->taken = taken;
  pthread_mutex_unlock(&clients->mutex);
  return taken->client;
}

/* With the mutex. NULL: none of them, but a connection of somebody's own. */
static struct taken **taken_find(struct clients *clients, const mongoc_client_t *client)
{
  for (struct taken **at = &clients->taken; *at; at = &(*at)->next)
    if ((*at)->client == client)
      return at;
  return NULL;
}

void clients_give(struct clients *clients, mongoc_client_t *client)
{
  pthread_mutex_lock(&clients->mutex);
  struct taken **at = taken_find(clients, client), *taken = at ? *at : NULL;
  assert(taken);
  *at = taken->next;
  pthread_mutex_unlock(&clients->mutex);
  if (taken->of->pool)
    mongoc_client_pool_push(taken->of->pool, client);
  generation_release(clients, taken->of);
  free(taken);
}

void clients_leave(struct clients *clients, mongoc_client_t *client)
{
  bson_error_t ignored;
  pthread_mutex_lock(&clients->mutex);
  struct taken **at = taken_find(clients, client);
  if (at && (*at)->of == clients->now) {
    struct generation *next = generation_new(clients->uri, clients->alone, clients->reach, &ignored);
    if (next) { /* no memory: the next failure tries it again */
      clients->now->left = true;
      clients->now = next;
    }
  }
  pthread_mutex_unlock(&clients->mutex);
}

bool clients_is_left(struct clients *clients, const mongoc_client_t *client)
{
  pthread_mutex_lock(&clients->mutex);
  struct taken **at = taken_find(clients, client);
  bool left = at && (*at)->of->left;
  pthread_mutex_unlock(&clients->mutex);
  return left;
}
