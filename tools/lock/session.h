/*
 * session: the locks of one pawl-lock, from the take to the release, and what the library tells of them. Private to pawl-lock.
 *
 * One thread, the first. It says what happens on stderr, as --log-level allows.
 */
#ifndef PAWL_TOOLS_LOCK_SESSION_H
#define PAWL_TOOLS_LOCK_SESSION_H

#include "config/config.h"

#include <pawl/lock.h>

enum {
  NAMES_MAX = 100,
  LOOK_MS = 500, /* between two looks: a signal may come just before a poll */
};

struct _bson_t;

struct session {
  const struct config *config;
  struct pawl *pawl;
  char *const *names; /* of the locks, NULL-terminated: config->names, or the collection of a document */
  pawl_hold holds[NAMES_MAX];
  int count, held, failed, released;   /* released: how many releases have ended */
  enum pawl_result results[NAMES_MAX]; /* of the releases */
  int events;                          /* the library's descriptor */
  enum { SESSION_WAITS, SESSION_CANCELS, SESSION_HOLDS, SESSION_FAILED } state;
  int code;        /* FAILED: the exit code */
  bool lost;       /* and said so */
  int64_t sent_ms; /* the command may run by the lease that counts from then on */
};

__attribute__((format(printf, 3, 4))) void session_say(const struct config *config, enum config_log_level level, const char *format, ...);
/* The library's text without the name that it begins with. */
const char *session_text(const char *name, const char *text);
/* The name of a hold. */
const char *session_name(const struct session *session, pawl_hold hold);
int session_exit_code(enum pawl_result result);

/*
 * Takes all the locks. A signal ends the wait, and with --hold the end of standard input does. False: `code`; the reason has been
 * said, but for a signal.
 */
MUST_CHECK bool session_take(struct session *session);
/* The document that is held, as it was at the take: valid while it is held. False: names are held. */
MUST_CHECK bool session_document(const struct session *session, struct _bson_t *document);
/* Takes in what the library has to tell. */
void session_events(struct session *session);
/* A lock is lost: the command, if there is one, is told to end. */
void session_lost(struct session *session, const char *name, const char *why);
/* Releases what is held, all at once, and waits for the answers, 6 s at most; results. */
void session_release(struct session *session);

#endif
