/*
 * aside: moves documents that no worker can take from `messages` to `refused`, and back, each exactly once (docs/protocol.md, Setting
 * aside).
 *
 * For pawl-setup: one thread; the calls block on the database.
 */
#ifndef PAWL_TOOLS_SETUP_ASIDE_H
#define PAWL_TOOLS_SETUP_ASIDE_H

#include "lockstore/lockstore.h"

struct aside {
  struct lockstore *store;   /* prepared; listing: greeted */
  struct lockstore *patient; /* the same database, for requests that read a whole queue */
  const char *type;          /* a valid type, or REFUSAL_UNTYPED; listing: NULL for all */
  int64_t wait_ms;           /* how long to wait for the lock, from the confirmation; negative: for ever */
  /* Shows what was found, before anything is changed; false: change nothing. */
  bool (*confirm)(void *context, const char *text);
  /* Tells what became of one document, or lists one. */
  void (*tell)(void *context, const char *text);
  void (*warn)(void *context, const char *text); /* what the list does without */
  void *context;
};

enum aside_status {
  ASIDE_DONE,
  ASIDE_DECLINED,    /* confirm returned false */
  ASIDE_LEFT,        /* some were told and stay, e.g. because their type is not paused; the others are moved */
  ASIDE_BUSY,        /* others held the type's lock; or it is not settled; nothing was changed */
  ASIDE_UNTRUSTED,   /* the type's ledger cannot be used; listing: one of them, and its own collection is not listed */
  ASIDE_UNAVAILABLE, /* the database gave no answer, or a right is missing; a repeated run goes on where this one ended */
};

/* `error` is filled with BUSY, UNTRUSTED and UNAVAILABLE. *moved: how many documents. */
MUST_CHECK enum aside_status aside_set(const struct aside *aside, size_t *moved, struct error *error);
MUST_CHECK enum aside_status aside_back(const struct aside *aside, size_t *moved, struct error *error);
/* Lists what no worker can take, and what was set aside. Only reads. DONE, UNTRUSTED or UNAVAILABLE. *waiting: how many are in the queue. */
MUST_CHECK enum aside_status aside_list(const struct aside *aside, size_t *waiting, struct error *error);

#endif
