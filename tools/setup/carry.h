/*
 * carry: a type goes on at another database: its ledger is marked there as moved, and made at the new place (docs/protocol.md, Moving a
 * type to another database). What is written at the old place after that waits there.
 *
 * For pawl-setup: one thread; the call blocks on both databases.
 */
#ifndef PAWL_TOOLS_SETUP_CARRY_H
#define PAWL_TOOLS_SETUP_CARRY_H

#include "lockstore/lockstore.h"

struct carry {
  struct lockstore *from, *to; /* prepared */
  const char *type;            /* valid */
  int64_t until_ms;            /* clock_boot_ms: asks a database that gives no answer until then, but a few seconds at least */
  /* Shows what was found, before anything is changed; false: change nothing. */
  bool (*confirm)(void *context, const char *text);
  void *context;
};

enum carry_status {
  CARRY_DONE,
  CARRY_DECLINED,    /* confirm returned false */
  CARRY_NOT_NOW,     /* the type is not paused, or locked, or documents wait; or the new place has a ledger of its own */
  CARRY_WRONG_PLACE, /* it is no other database, or not the one to which the type was moved */
  CARRY_UNTRUSTED,   /* a ledger cannot be used */
  CARRY_UNAVAILABLE, /* a database gave no answer, or a right is missing; a repeated run goes on where this one ended */
};

/*
 * `error` is filled unless DONE or DECLINED. DONE: *text says what is to be done next. Killed, or cut off, anywhere, nothing is harmed: the
 * type is served at the old place, or, until a repeated run is through, nowhere.
 */
MUST_CHECK enum carry_status carry(const struct carry *carry, struct error *text, struct error *error);

#endif
