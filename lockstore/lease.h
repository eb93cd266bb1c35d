/*
 * lease: how the time of a lease is divided, for every holder. Pure; any thread.
 *
 * The time counts from before the request was sent that took or renewed the lock. After a third of the lease the holder renews
 * it. After two thirds the holder begins nothing that needs the lock. After all of it the lock may belong to another.
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

/* The time-out of one request; a request that waits for the majority of a replica set has lease_majority_ms. */
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
