/*
 * lease: how the time of a lease is divided, for all who hold one. Pure; any thread.
 *
 * It counts from before the request was sent that took or renewed the lock. After a third of it the lock is renewed. After two thirds
 * nothing is begun that must not be done without the lock. After all of it the lock is another's.
 */
#ifndef PAWL_LOCKSTORE_LEASE_H
#define PAWL_LOCKSTORE_LEASE_H

#include <stdint.h>

static inline int64_t lease_renew_ms(int64_t lease_ms)
{
  return lease_ms / 3;
}

static inline int64_t lease_safe_ms(int64_t lease_ms)
{
  return lease_ms * 2 / 3;
}

/* For one request; one that waits for the majority of a replica set has lease_majority_ms. */
static inline int64_t lease_request_ms(int64_t lease_ms)
{
  enum { REQUEST_MS_MAX = 3000 };
  return lease_ms / 3 < REQUEST_MS_MAX ? lease_ms / 3 : REQUEST_MS_MAX;
}

static inline int64_t lease_majority_ms(int64_t lease_ms)
{
  return lease_ms / 3;
}

#endif
