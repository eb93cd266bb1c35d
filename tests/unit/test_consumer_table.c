/*
 * Every state × every event: the table says what comes next and what is started. A situation is reached by events from another
 * one. From each situation the test tries the timer (too early, and due), a stop, and every answer that each running action may
 * give, and compares the outcome with the table. A missing line fails the test, and so does a superfluous one.
 *
 * After a deliberate change `test_consumer_table --print` prints the lines as the code now has them. Compare them with
 * docs/protocol.md before you paste them here.
 */
#include "consumer_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

struct situation {
  const char *name, *from, *events;
};

/* clang-format off */
static const struct situation situations[] = {
  {"idle, peeking",            NULL,                         "wait 0"},
  {"idle, storage",            "idle, peeking",              "PEEK NO"},
  {"idle, pause",              "idle, storage",              "CHECK YES"},
  {"idle, storage, woken",     "idle, storage",              "message"},
  {"idle, distrust",           "idle, storage",              "CHECK REFUSED"},
  {"idle, distrust, storage",  "idle, distrust",             "wait 3000"},

  {"idle, watched, peeking",   "idle, pause",                "watch"},
  {"idle, watched",            "idle, watched, peeking",     "PEEK NO"},
  {"idle, woken, peeking",     "idle, watched, peeking",     "message"},
  {"idle, failed",             "idle, watched, peeking",     "PEEK UNKNOWN"},

  {"checking",                 "idle, peeking",              "PEEK YES"},
  {"checking, distrust",       "checking",                   "CHECK REFUSED"},
  {"checking, stands by",      "checking",                   "CHECK NEWER"},
  {"checking, lock free",      "waiting, free",              "PEEK YES"},

  {"waiting, first look",      "checking",                   "CHECK YES"},
  {"waiting, pause",           "waiting, first look",        "LOOK YES:busy"},
  {"waiting, look",            "waiting, pause",             "wait 100"},
  {"waiting, peek",            "waiting, pause",             "wait 1000"},
  {"waiting, watched, look",   "waiting, pause",             "watch"},
  {"waiting, watched",         "waiting, watched, look",     "LOOK YES:busy"},
  {"waiting, woken, look",     "waiting, watched, look",     "lock"},
  {"waiting, storage",         "waiting, pause",             "wait 70000"},
  {"waiting, free",            "waiting, look",              "LOOK NO"},
  {"waiting, expired",         "waiting, look",              "LOOK YES:expired"},

  {"taking",                   "waiting, first look",        "LOOK NO"},
  {"taking, steal",            "waiting, first look",        "LOOK YES:expired"},

  {"fencing",                  "taking",                     "TAKE YES"},
  {"fencing, renewing",        "fencing",                    "wait 10000"},
  {"fencing, unknown",         "fencing",                    "FENCE UNKNOWN"},
  {"fencing, again",           "fencing, unknown",           "wake"},
  {"fencing, roll",            "releasing, clean, roll",     "COMMIT YES"},

  {"opening",                  "fencing",                    "FENCE YES:clean"},
  {"opening, unclean",         "fencing",                    "FENCE YES:unclean"},
  {"opening, no ledger",       "fencing",                    "FENCE YES:none"},
  {"opening, unsettled",       "fencing",                    "FENCE YES:unsettled"},
  {"opening, roll",            "fencing, roll",              "FENCE YES"},

  {"settling, find",           "opening, unsettled",         "OPEN YES"},
  {"settling, find, renewing", "settling, find",             "wait 10000"},
  {"settling, delete",         "settling, find",             "SETTLE_FIND YES"},
  {"settling, record",         "settling, delete",           "SETTLE_DELETE YES"},
  {"settling, last record",    "settling, record",           "SETTLE_RECORD YES; SETTLE_FIND YES; SETTLE_DELETE YES; SETTLE_RECORD YES; SETTLE_FIND YES; SETTLE_DELETE YES"},
  {"settling, pause",          "settling, find",             "SETTLE_FIND REFUSED"},
  {"settling, late",           "settling, pause",            "wait 20000"},

  {"draining, first read",     "opening",                    "OPEN YES"},
  {"draining, empty",          "draining, first read",       "READ NO"},
  {"draining, woken",          "draining, first read",       "message"},
  {"draining, lingered",       "draining, empty",            "wait 100; READ NO; wait 4850; wait 100"},
  {"draining, read, late",     "draining, first read",       "wait 20000"},
  {"draining, guard",          "draining, first read",       "READ YES"},
  {"draining, guard, foreign", "fencing",                    "FENCE YES:unvouched-clean; OPEN YES; READ YES"},
  {"draining, guard, unclean", "fencing",                    "FENCE YES:unvouched; OPEN YES; READ YES"},
  {"draining, verify",         "draining, guard",            "GUARD YES:local"},
  {"draining, verify, clean",  "draining, guard, foreign",   "GUARD YES:local-exact"},
  {"draining, cut",            "draining, verify",           "VERIFY YES"},
  {"draining, create",         "draining, guard",            "GUARD YES:busy"},
  {"draining, create, first",  "opening, no ledger",         "OPEN YES; READ YES"},
  {"draining, create, roll",   "opening, roll",              "OPEN YES; READ YES"},
  {"draining, name",           "draining, create",           "CREATE YES"},
  {"draining, name, unknown",  "draining, name",             "COMMIT UNKNOWN"},
  {"draining, name, renewing", "draining, name",             "wait 10000"},
  {"draining, append",         "draining, cut",              "CUT YES"},
  {"draining, append, renew",  "draining, append",           "wait 10000"},
  {"draining, append, stall",  "draining, append, renew",    "RENEW YES; wait 80000"},
  {"draining, no space",       "draining, append",           "APPEND NO_SPACE"},
  {"draining, commit",         "draining, append",           "APPEND YES"},
  {"draining, commit unknown", "draining, commit",           "COMMIT UNKNOWN"},
  {"draining, commit, late",   "draining, commit",           "wait 20000"},
  {"draining, delete",         "draining, commit",           "COMMIT YES"},
  {"draining, delete of two",  "draining, first read",       "READ YES:many; GUARD YES:exact; APPEND YES; COMMIT YES"},
  {"draining, all at once",    "draining, delete",           "READ YES"},
  {"draining, delete unknown", "draining, delete",           "READ NO; DELETE UNKNOWN"},
  {"draining, next pass",      "draining, delete",           "READ NO; DELETE YES"},
  {"draining, large",          "draining, append",           "APPEND YES:large"},

  {"leaving, append",          "draining, append",           "stop"},
  {"leaving, create",          "draining, create",           "stop"},
  {"leaving, commit",          "draining, commit",           "stop"},
  {"leaving, commit unknown",  "draining, commit unknown",   "stop"},
  {"leaving, delete",          "draining, delete",           "stop"},
  {"releasing, hopeless",      "draining, delete unknown",   "stop"},
  {"leaving, fenced",          "draining, commit",           "COMMIT NO"},
  {"leaving, failed",          "draining, append",           "APPEND FAILED"},
  {"leaving, lost",            "draining, append, renew",    "RENEW NO"},

  {"releasing, nothing",       "draining, lingered",         "READ NO"},
  {"releasing, written",       "draining, next pass",        "stop; READ NO"},
  {"releasing, segment",       "leaving, create",            "CREATE YES; READ NO"},
  {"releasing, failed",        "leaving, failed",            "READ NO"},
  {"releasing, roll",          "draining, large",            "COMMIT YES; READ NO; DELETE YES"},
  {"releasing, clean",         "releasing, nothing",         "CLOSE YES"},
  {"releasing, clean, pause",  "releasing, clean",           "COMMIT UNKNOWN"},
  {"releasing, clean, stop",   "releasing, written",         "CLOSE YES"},
  {"releasing, clean, roll",   "releasing, roll",            "CLOSE YES"},
  {"releasing, clean, renew",  "releasing, clean",           "wait 10000"},
  {"releasing, to check",      "opening",                    "OPEN REFUSED"},
  {"releasing, to end",        "draining, create",           "CREATE REFUSED; READ NO"},

  {"unlocking",                "releasing, clean",           "COMMIT YES"},
  {"unlocking, woken",         "unlocking",                  "message"},
  {"unlocking, late",          "unlocking",                  "wait 40000"},
  {"unlocking, gave up",       "taking",                     "TAKE UNKNOWN"},
  {"unlocking, to back off",   "releasing, failed",          "CLOSE YES"},
  {"unlocking, to check",      "releasing, to check",        "CLOSE YES; COMMIT YES"},
  {"unlocking, to end",        "releasing, to end",          "CLOSE YES; COMMIT YES"},
  {"unlocking, to done",       "fencing",                    "stop; FENCE NO"},

  {"backing off",              "unlocking, to back off",     "UNLOCK YES"},
  {"stopped",                  "unlocking, to end",          "UNLOCK YES"},
  {"done",                     "idle, pause",                "stop"},
};

struct row {
  const char *situation, *event;
  enum consumer_state state;
  const char *started;
};

static const struct row rows[] = {
  {"idle, peeking",             "stop",                    STATE_IDLE,          ""},
  {"idle, peeking",             "message",                 STATE_IDLE,          ""},
  {"idle, peeking",             "lock",                    STATE_IDLE,          ""},
  {"idle, peeking",             "lost",                    STATE_IDLE,          ""},
  {"idle, peeking",             "PEEK YES",                STATE_CHECKING,      "CHECK"},
  {"idle, peeking",             "PEEK NO",                 STATE_IDLE,          "CHECK"},
  {"idle, peeking",             "PEEK UNKNOWN",            STATE_IDLE,          ""},
  {"idle, peeking",             "PEEK REFUSED",            STATE_STOPPED,       ""},

  {"idle, storage",             "stop",                    STATE_IDLE,          ""},
  {"idle, storage",             "message",                 STATE_IDLE,          ""},
  {"idle, storage",             "lock",                    STATE_IDLE,          ""},
  {"idle, storage",             "lost",                    STATE_IDLE,          ""},
  {"idle, storage",             "CHECK YES",               STATE_IDLE,          ""},
  {"idle, storage",             "CHECK UNKNOWN",           STATE_IDLE,          ""},
  {"idle, storage",             "CHECK CHANGED",           STATE_IDLE,          ""},
  {"idle, storage",             "CHECK REFUSED",           STATE_IDLE,          ""},
  {"idle, storage",             "CHECK NEWER",             STATE_IDLE,          ""},

  {"idle, pause",               "stop",                    STATE_DONE,          ""},
  {"idle, pause",               "wake",                    STATE_IDLE,          "PEEK"},
  {"idle, pause",               "message",                 STATE_IDLE,          "PEEK"},
  {"idle, pause",               "lock",                    STATE_IDLE,          "PEEK"},
  {"idle, pause",               "lost",                    STATE_IDLE,          ""},

  {"idle, storage, woken",      "stop",                    STATE_IDLE,          ""},
  {"idle, storage, woken",      "message",                 STATE_IDLE,          ""},
  {"idle, storage, woken",      "lock",                    STATE_IDLE,          ""},
  {"idle, storage, woken",      "lost",                    STATE_IDLE,          ""},
  {"idle, storage, woken",      "CHECK YES",               STATE_IDLE,          "PEEK"},
  {"idle, storage, woken",      "CHECK UNKNOWN",           STATE_IDLE,          "PEEK"},
  {"idle, storage, woken",      "CHECK CHANGED",           STATE_IDLE,          "PEEK"},
  {"idle, storage, woken",      "CHECK REFUSED",           STATE_IDLE,          "PEEK"},
  {"idle, storage, woken",      "CHECK NEWER",             STATE_IDLE,          "PEEK"},

  {"idle, distrust",            "stop",                    STATE_DONE,          ""},
  {"idle, distrust",            "wake",                    STATE_IDLE,          "PEEK"},
  {"idle, distrust",            "message",                 STATE_IDLE,          "PEEK"},
  {"idle, distrust",            "lock",                    STATE_IDLE,          "PEEK"},
  {"idle, distrust",            "lost",                    STATE_IDLE,          ""},

  {"idle, distrust, storage",   "stop",                    STATE_IDLE,          ""},
  {"idle, distrust, storage",   "message",                 STATE_IDLE,          ""},
  {"idle, distrust, storage",   "lock",                    STATE_IDLE,          ""},
  {"idle, distrust, storage",   "lost",                    STATE_IDLE,          ""},
  {"idle, distrust, storage",   "CHECK YES",               STATE_IDLE,          "PEEK"},
  {"idle, distrust, storage",   "CHECK UNKNOWN",           STATE_IDLE,          "PEEK"},
  {"idle, distrust, storage",   "CHECK CHANGED",           STATE_IDLE,          "PEEK"},
  {"idle, distrust, storage",   "CHECK REFUSED",           STATE_IDLE,          "PEEK"},
  {"idle, distrust, storage",   "CHECK NEWER",             STATE_IDLE,          "PEEK"},

  {"idle, watched, peeking",    "stop",                    STATE_IDLE,          ""},
  {"idle, watched, peeking",    "message",                 STATE_IDLE,          ""},
  {"idle, watched, peeking",    "lock",                    STATE_IDLE,          ""},
  {"idle, watched, peeking",    "lost",                    STATE_IDLE,          ""},
  {"idle, watched, peeking",    "PEEK YES",                STATE_CHECKING,      "CHECK"},
  {"idle, watched, peeking",    "PEEK NO",                 STATE_IDLE,          ""},
  {"idle, watched, peeking",    "PEEK UNKNOWN",            STATE_IDLE,          ""},
  {"idle, watched, peeking",    "PEEK REFUSED",            STATE_STOPPED,       ""},

  {"idle, watched",             "stop",                    STATE_DONE,          ""},
  {"idle, watched",             "wake",                    STATE_IDLE,          "PEEK"},
  {"idle, watched",             "message",                 STATE_IDLE,          "PEEK"},
  {"idle, watched",             "lock",                    STATE_IDLE,          "PEEK"},
  {"idle, watched",             "lost",                    STATE_IDLE,          ""},

  {"idle, woken, peeking",      "stop",                    STATE_IDLE,          ""},
  {"idle, woken, peeking",      "message",                 STATE_IDLE,          ""},
  {"idle, woken, peeking",      "lock",                    STATE_IDLE,          ""},
  {"idle, woken, peeking",      "lost",                    STATE_IDLE,          ""},
  {"idle, woken, peeking",      "PEEK YES",                STATE_CHECKING,      "CHECK"},
  {"idle, woken, peeking",      "PEEK NO",                 STATE_IDLE,          "PEEK"},
  {"idle, woken, peeking",      "PEEK UNKNOWN",            STATE_IDLE,          ""},
  {"idle, woken, peeking",      "PEEK REFUSED",            STATE_STOPPED,       ""},

  {"idle, failed",              "stop",                    STATE_DONE,          ""},
  {"idle, failed",              "wake",                    STATE_IDLE,          "PEEK"},
  {"idle, failed",              "message",                 STATE_IDLE,          ""},
  {"idle, failed",              "lock",                    STATE_IDLE,          ""},
  {"idle, failed",              "lost",                    STATE_IDLE,          ""},

  {"checking",                  "stop",                    STATE_CHECKING,      ""},
  {"checking",                  "message",                 STATE_CHECKING,      ""},
  {"checking",                  "lock",                    STATE_CHECKING,      ""},
  {"checking",                  "lost",                    STATE_CHECKING,      ""},
  {"checking",                  "CHECK YES",               STATE_WAITING,       "LOOK"},
  {"checking",                  "CHECK UNKNOWN",           STATE_CHECKING,      ""},
  {"checking",                  "CHECK CHANGED",           STATE_CHECKING,      ""},
  {"checking",                  "CHECK REFUSED",           STATE_CHECKING,      ""},
  {"checking",                  "CHECK NEWER",             STATE_CHECKING,      ""},

  {"checking, distrust",        "stop",                    STATE_DONE,          ""},
  {"checking, distrust",        "wake",                    STATE_CHECKING,      "PEEK"},
  {"checking, distrust",        "message",                 STATE_CHECKING,      ""},
  {"checking, distrust",        "lock",                    STATE_CHECKING,      ""},
  {"checking, distrust",        "lost",                    STATE_CHECKING,      ""},

  {"checking, stands by",       "stop",                    STATE_DONE,          ""},
  {"checking, stands by",       "wake",                    STATE_CHECKING,      "PEEK"},
  {"checking, stands by",       "message",                 STATE_CHECKING,      ""},
  {"checking, stands by",       "lock",                    STATE_CHECKING,      ""},
  {"checking, stands by",       "lost",                    STATE_CHECKING,      ""},

  {"checking, lock free",       "stop",                    STATE_CHECKING,      ""},
  {"checking, lock free",       "message",                 STATE_CHECKING,      ""},
  {"checking, lock free",       "lock",                    STATE_CHECKING,      ""},
  {"checking, lock free",       "lost",                    STATE_CHECKING,      ""},
  {"checking, lock free",       "CHECK YES",               STATE_TAKING,        "TAKE"},
  {"checking, lock free",       "CHECK UNKNOWN",           STATE_CHECKING,      ""},
  {"checking, lock free",       "CHECK CHANGED",           STATE_CHECKING,      ""},
  {"checking, lock free",       "CHECK REFUSED",           STATE_CHECKING,      ""},
  {"checking, lock free",       "CHECK NEWER",             STATE_CHECKING,      ""},

  {"waiting, first look",       "stop",                    STATE_WAITING,       ""},
  {"waiting, first look",       "message",                 STATE_WAITING,       ""},
  {"waiting, first look",       "lock",                    STATE_WAITING,       ""},
  {"waiting, first look",       "lost",                    STATE_WAITING,       ""},
  {"waiting, first look",       "LOOK YES:busy",           STATE_WAITING,       ""},
  {"waiting, first look",       "LOOK YES:expired",        STATE_TAKING,        "TAKE"},
  {"waiting, first look",       "LOOK NO",                 STATE_TAKING,        "TAKE"},
  {"waiting, first look",       "LOOK UNKNOWN",            STATE_WAITING,       ""},
  {"waiting, first look",       "LOOK REFUSED",            STATE_WAITING,       ""},

  {"waiting, pause",            "stop",                    STATE_DONE,          ""},
  {"waiting, pause",            "wake",                    STATE_WAITING,       "LOOK"},
  {"waiting, pause",            "message",                 STATE_WAITING,       ""},
  {"waiting, pause",            "lock",                    STATE_WAITING,       "LOOK"},
  {"waiting, pause",            "lost",                    STATE_WAITING,       ""},

  {"waiting, look",             "stop",                    STATE_WAITING,       ""},
  {"waiting, look",             "message",                 STATE_WAITING,       ""},
  {"waiting, look",             "lock",                    STATE_WAITING,       ""},
  {"waiting, look",             "lost",                    STATE_WAITING,       ""},
  {"waiting, look",             "LOOK YES:busy",           STATE_WAITING,       ""},
  {"waiting, look",             "LOOK YES:expired",        STATE_WAITING,       "PEEK"},
  {"waiting, look",             "LOOK NO",                 STATE_WAITING,       "PEEK"},
  {"waiting, look",             "LOOK UNKNOWN",            STATE_WAITING,       ""},
  {"waiting, look",             "LOOK REFUSED",            STATE_WAITING,       ""},

  {"waiting, peek",             "stop",                    STATE_WAITING,       ""},
  {"waiting, peek",             "message",                 STATE_WAITING,       ""},
  {"waiting, peek",             "lock",                    STATE_WAITING,       ""},
  {"waiting, peek",             "lost",                    STATE_WAITING,       ""},
  {"waiting, peek",             "PEEK YES",                STATE_WAITING,       "LOOK"},
  {"waiting, peek",             "PEEK NO",                 STATE_IDLE,          "PEEK"},
  {"waiting, peek",             "PEEK UNKNOWN",            STATE_WAITING,       ""},
  {"waiting, peek",             "PEEK REFUSED",            STATE_STOPPED,       ""},

  {"waiting, watched, look",    "stop",                    STATE_WAITING,       ""},
  {"waiting, watched, look",    "message",                 STATE_WAITING,       ""},
  {"waiting, watched, look",    "lock",                    STATE_WAITING,       ""},
  {"waiting, watched, look",    "lost",                    STATE_WAITING,       ""},
  {"waiting, watched, look",    "LOOK YES:busy",           STATE_WAITING,       ""},
  {"waiting, watched, look",    "LOOK YES:expired",        STATE_WAITING,       "PEEK"},
  {"waiting, watched, look",    "LOOK NO",                 STATE_WAITING,       "PEEK"},
  {"waiting, watched, look",    "LOOK UNKNOWN",            STATE_WAITING,       ""},
  {"waiting, watched, look",    "LOOK REFUSED",            STATE_WAITING,       ""},

  {"waiting, watched",          "stop",                    STATE_DONE,          ""},
  {"waiting, watched",          "wake",                    STATE_WAITING,       "LOOK"},
  {"waiting, watched",          "message",                 STATE_WAITING,       ""},
  {"waiting, watched",          "lock",                    STATE_WAITING,       "LOOK"},
  {"waiting, watched",          "lost",                    STATE_WAITING,       ""},

  {"waiting, woken, look",      "stop",                    STATE_WAITING,       ""},
  {"waiting, woken, look",      "message",                 STATE_WAITING,       ""},
  {"waiting, woken, look",      "lock",                    STATE_WAITING,       ""},
  {"waiting, woken, look",      "lost",                    STATE_WAITING,       ""},
  {"waiting, woken, look",      "LOOK YES:busy",           STATE_WAITING,       "LOOK"},
  {"waiting, woken, look",      "LOOK YES:expired",        STATE_WAITING,       "PEEK"},
  {"waiting, woken, look",      "LOOK NO",                 STATE_WAITING,       "PEEK"},
  {"waiting, woken, look",      "LOOK UNKNOWN",            STATE_WAITING,       ""},
  {"waiting, woken, look",      "LOOK REFUSED",            STATE_WAITING,       ""},

  {"waiting, storage",          "stop",                    STATE_WAITING,       ""},
  {"waiting, storage",          "message",                 STATE_WAITING,       ""},
  {"waiting, storage",          "lock",                    STATE_WAITING,       ""},
  {"waiting, storage",          "lost",                    STATE_WAITING,       ""},
  {"waiting, storage",          "CHECK YES",               STATE_WAITING,       "PEEK"},
  {"waiting, storage",          "CHECK UNKNOWN",           STATE_WAITING,       "PEEK"},
  {"waiting, storage",          "CHECK CHANGED",           STATE_WAITING,       "PEEK"},
  {"waiting, storage",          "CHECK REFUSED",           STATE_CHECKING,      ""},
  {"waiting, storage",          "CHECK NEWER",             STATE_CHECKING,      ""},

  {"waiting, free",             "stop",                    STATE_WAITING,       ""},
  {"waiting, free",             "message",                 STATE_WAITING,       ""},
  {"waiting, free",             "lock",                    STATE_WAITING,       ""},
  {"waiting, free",             "lost",                    STATE_WAITING,       ""},
  {"waiting, free",             "PEEK YES",                STATE_CHECKING,      "CHECK"},
  {"waiting, free",             "PEEK NO",                 STATE_IDLE,          "PEEK"},
  {"waiting, free",             "PEEK UNKNOWN",            STATE_WAITING,       ""},
  {"waiting, free",             "PEEK REFUSED",            STATE_STOPPED,       ""},

  {"waiting, expired",          "stop",                    STATE_WAITING,       ""},
  {"waiting, expired",          "message",                 STATE_WAITING,       ""},
  {"waiting, expired",          "lock",                    STATE_WAITING,       ""},
  {"waiting, expired",          "lost",                    STATE_WAITING,       ""},
  {"waiting, expired",          "PEEK YES",                STATE_CHECKING,      "CHECK"},
  {"waiting, expired",          "PEEK NO",                 STATE_IDLE,          "PEEK"},
  {"waiting, expired",          "PEEK UNKNOWN",            STATE_WAITING,       ""},
  {"waiting, expired",          "PEEK REFUSED",            STATE_STOPPED,       ""},

  {"taking",                    "stop",                    STATE_TAKING,        ""},
  {"taking",                    "message",                 STATE_TAKING,        ""},
  {"taking",                    "lock",                    STATE_TAKING,        ""},
  {"taking",                    "lost",                    STATE_TAKING,        ""},
  {"taking",                    "TAKE YES",                STATE_FENCING,       "FENCE"},
  {"taking",                    "TAKE NO",                 STATE_WAITING,       ""},
  {"taking",                    "TAKE UNKNOWN",            STATE_UNLOCKING,     "UNLOCK"},

  {"taking, steal",             "stop",                    STATE_TAKING,        ""},
  {"taking, steal",             "message",                 STATE_TAKING,        ""},
  {"taking, steal",             "lock",                    STATE_TAKING,        ""},
  {"taking, steal",             "lost",                    STATE_TAKING,        ""},
  {"taking, steal",             "TAKE YES",                STATE_FENCING,       "FENCE"},
  {"taking, steal",             "TAKE NO",                 STATE_WAITING,       ""},
  {"taking, steal",             "TAKE UNKNOWN",            STATE_UNLOCKING,     "UNLOCK"},

  {"fencing",                   "stop",                    STATE_FENCING,       ""},
  {"fencing",                   "wake",                    STATE_FENCING,       "RENEW"},
  {"fencing",                   "message",                 STATE_FENCING,       ""},
  {"fencing",                   "lock",                    STATE_FENCING,       ""},
  {"fencing",                   "lost",                    STATE_FENCING,       "RENEW"},
  {"fencing",                   "FENCE YES:none",          STATE_OPENING,       "OPEN"},
  {"fencing",                   "FENCE YES:clean",         STATE_OPENING,       "OPEN"},
  {"fencing",                   "FENCE YES:unclean",       STATE_OPENING,       "OPEN"},
  {"fencing",                   "FENCE YES:unsettled",     STATE_OPENING,       "OPEN"},
  {"fencing",                   "FENCE NO",                STATE_UNLOCKING,     "UNLOCK"},
  {"fencing",                   "FENCE UNKNOWN",           STATE_FENCING,       ""},
  {"fencing",                   "FENCE REFUSED",           STATE_UNLOCKING,     "UNLOCK"},
  {"fencing",                   "FENCE FAILED",            STATE_UNLOCKING,     "UNLOCK"},

  {"fencing, renewing",         "stop",                    STATE_FENCING,       ""},
  {"fencing, renewing",         "message",                 STATE_FENCING,       ""},
  {"fencing, renewing",         "lock",                    STATE_FENCING,       ""},
  {"fencing, renewing",         "lost",                    STATE_FENCING,       ""},
  {"fencing, renewing",         "FENCE YES:none",          STATE_OPENING,       "OPEN"},
  {"fencing, renewing",         "FENCE YES:clean",         STATE_OPENING,       "OPEN"},
  {"fencing, renewing",         "FENCE YES:unclean",       STATE_OPENING,       "OPEN"},
  {"fencing, renewing",         "FENCE YES:unsettled",     STATE_OPENING,       "OPEN"},
  {"fencing, renewing",         "FENCE NO",                STATE_UNLOCKING,     "UNLOCK"},
  {"fencing, renewing",         "FENCE UNKNOWN",           STATE_FENCING,       ""},
  {"fencing, renewing",         "FENCE REFUSED",           STATE_UNLOCKING,     "UNLOCK"},
  {"fencing, renewing",         "FENCE FAILED",            STATE_UNLOCKING,     "UNLOCK"},
  {"fencing, renewing",         "RENEW YES",               STATE_FENCING,       ""},
  {"fencing, renewing",         "RENEW NO",                STATE_FENCING,       ""},
  {"fencing, renewing",         "RENEW UNKNOWN",           STATE_FENCING,       ""},

  {"fencing, unknown",          "stop",                    STATE_UNLOCKING,     "UNLOCK"},
  {"fencing, unknown",          "wake",                    STATE_FENCING,       "FENCE"},
  {"fencing, unknown",          "message",                 STATE_FENCING,       ""},
  {"fencing, unknown",          "lock",                    STATE_FENCING,       ""},
  {"fencing, unknown",          "lost",                    STATE_FENCING,       "RENEW"},

  {"fencing, again",            "stop",                    STATE_FENCING,       ""},
  {"fencing, again",            "wake",                    STATE_FENCING,       "RENEW"},
  {"fencing, again",            "message",                 STATE_FENCING,       ""},
  {"fencing, again",            "lock",                    STATE_FENCING,       ""},
  {"fencing, again",            "lost",                    STATE_FENCING,       "RENEW"},
  {"fencing, again",            "FENCE YES:none",          STATE_OPENING,       "OPEN"},
  {"fencing, again",            "FENCE YES:clean",         STATE_OPENING,       "OPEN"},
  {"fencing, again",            "FENCE YES:unclean",       STATE_OPENING,       "OPEN"},
  {"fencing, again",            "FENCE YES:unsettled",     STATE_OPENING,       "OPEN"},
  {"fencing, again",            "FENCE NO",                STATE_UNLOCKING,     "UNLOCK"},
  {"fencing, again",            "FENCE UNKNOWN",           STATE_FENCING,       ""},
  {"fencing, again",            "FENCE REFUSED",           STATE_UNLOCKING,     "UNLOCK"},
  {"fencing, again",            "FENCE FAILED",            STATE_UNLOCKING,     "UNLOCK"},

  {"fencing, roll",             "stop",                    STATE_FENCING,       ""},
  {"fencing, roll",             "wake",                    STATE_FENCING,       "RENEW"},
  {"fencing, roll",             "message",                 STATE_FENCING,       ""},
  {"fencing, roll",             "lock",                    STATE_FENCING,       ""},
  {"fencing, roll",             "lost",                    STATE_FENCING,       "RENEW"},
  {"fencing, roll",             "FENCE YES:none",          STATE_OPENING,       "OPEN"},
  {"fencing, roll",             "FENCE YES:clean",         STATE_OPENING,       "OPEN"},
  {"fencing, roll",             "FENCE YES:unclean",       STATE_OPENING,       "OPEN"},
  {"fencing, roll",             "FENCE YES:unsettled",     STATE_OPENING,       "OPEN"},
  {"fencing, roll",             "FENCE NO",                STATE_UNLOCKING,     "UNLOCK"},
  {"fencing, roll",             "FENCE UNKNOWN",           STATE_FENCING,       ""},
  {"fencing, roll",             "FENCE REFUSED",           STATE_UNLOCKING,     "UNLOCK"},
  {"fencing, roll",             "FENCE FAILED",            STATE_UNLOCKING,     "UNLOCK"},

  {"opening",                   "stop",                    STATE_OPENING,       ""},
  {"opening",                   "wake",                    STATE_OPENING,       "RENEW"},
  {"opening",                   "message",                 STATE_OPENING,       ""},
  {"opening",                   "lock",                    STATE_OPENING,       ""},
  {"opening",                   "lost",                    STATE_OPENING,       "RENEW"},
  {"opening",                   "OPEN YES",                STATE_DRAINING,      "READ"},
  {"opening",                   "OPEN NO",                 STATE_RELEASING,     "CLOSE"},
  {"opening",                   "OPEN UNKNOWN",            STATE_OPENING,       ""},
  {"opening",                   "OPEN REFUSED",            STATE_RELEASING,     "CLOSE"},
  {"opening",                   "OPEN NEWER",              STATE_RELEASING,     "CLOSE"},

  {"opening, unclean",          "stop",                    STATE_OPENING,       ""},
  {"opening, unclean",          "wake",                    STATE_OPENING,       "RENEW"},
  {"opening, unclean",          "message",                 STATE_OPENING,       ""},
  {"opening, unclean",          "lock",                    STATE_OPENING,       ""},
  {"opening, unclean",          "lost",                    STATE_OPENING,       "RENEW"},
  {"opening, unclean",          "OPEN YES",                STATE_DRAINING,      "READ"},
  {"opening, unclean",          "OPEN NO",                 STATE_RELEASING,     "CLOSE"},
  {"opening, unclean",          "OPEN UNKNOWN",            STATE_OPENING,       ""},
  {"opening, unclean",          "OPEN REFUSED",            STATE_RELEASING,     "CLOSE"},
  {"opening, unclean",          "OPEN NEWER",              STATE_RELEASING,     "CLOSE"},

  {"opening, no ledger",        "stop",                    STATE_OPENING,       ""},
  {"opening, no ledger",        "wake",                    STATE_OPENING,       "RENEW"},
  {"opening, no ledger",        "message",                 STATE_OPENING,       ""},
  {"opening, no ledger",        "lock",                    STATE_OPENING,       ""},
  {"opening, no ledger",        "lost",                    STATE_OPENING,       "RENEW"},
  {"opening, no ledger",        "OPEN YES",                STATE_DRAINING,      "READ"},
  {"opening, no ledger",        "OPEN NO",                 STATE_RELEASING,     "CLOSE"},
  {"opening, no ledger",        "OPEN UNKNOWN",            STATE_OPENING,       ""},
  {"opening, no ledger",        "OPEN REFUSED",            STATE_RELEASING,     "CLOSE"},
  {"opening, no ledger",        "OPEN NEWER",              STATE_RELEASING,     "CLOSE"},

  {"opening, unsettled",        "stop",                    STATE_OPENING,       ""},
  {"opening, unsettled",        "wake",                    STATE_OPENING,       "RENEW"},
  {"opening, unsettled",        "message",                 STATE_OPENING,       ""},
  {"opening, unsettled",        "lock",                    STATE_OPENING,       ""},
  {"opening, unsettled",        "lost",                    STATE_OPENING,       "RENEW"},
  {"opening, unsettled",        "OPEN YES",                STATE_SETTLING,      "SETTLE_FIND"},
  {"opening, unsettled",        "OPEN NO",                 STATE_RELEASING,     "CLOSE"},
  {"opening, unsettled",        "OPEN UNKNOWN",            STATE_OPENING,       ""},
  {"opening, unsettled",        "OPEN REFUSED",            STATE_RELEASING,     "CLOSE"},
  {"opening, unsettled",        "OPEN NEWER",              STATE_RELEASING,     "CLOSE"},

  {"opening, roll",             "stop",                    STATE_OPENING,       ""},
  {"opening, roll",             "wake",                    STATE_OPENING,       "RENEW"},
  {"opening, roll",             "message",                 STATE_OPENING,       ""},
  {"opening, roll",             "lock",                    STATE_OPENING,       ""},
  {"opening, roll",             "lost",                    STATE_OPENING,       "RENEW"},
  {"opening, roll",             "OPEN YES",                STATE_DRAINING,      "READ"},
  {"opening, roll",             "OPEN NO",                 STATE_RELEASING,     "CLOSE"},
  {"opening, roll",             "OPEN UNKNOWN",            STATE_OPENING,       ""},
  {"opening, roll",             "OPEN REFUSED",            STATE_RELEASING,     "CLOSE"},
  {"opening, roll",             "OPEN NEWER",              STATE_RELEASING,     "CLOSE"},

  {"settling, find",            "stop",                    STATE_SETTLING,      ""},
  {"settling, find",            "wake",                    STATE_SETTLING,      "RENEW"},
  {"settling, find",            "message",                 STATE_SETTLING,      ""},
  {"settling, find",            "lock",                    STATE_SETTLING,      ""},
  {"settling, find",            "lost",                    STATE_SETTLING,      "RENEW"},
  {"settling, find",            "SETTLE_FIND YES",         STATE_SETTLING,      "SETTLE_DELETE"},
  {"settling, find",            "SETTLE_FIND REFUSED",     STATE_SETTLING,      ""},
  {"settling, find",            "SETTLE_FIND NEWER",       STATE_RELEASING,     "CLOSE"},

  {"settling, find, renewing",  "stop",                    STATE_SETTLING,      ""},
  {"settling, find, renewing",  "message",                 STATE_SETTLING,      ""},
  {"settling, find, renewing",  "lock",                    STATE_SETTLING,      ""},
  {"settling, find, renewing",  "lost",                    STATE_SETTLING,      ""},
  {"settling, find, renewing",  "SETTLE_FIND YES",         STATE_SETTLING,      "SETTLE_DELETE"},
  {"settling, find, renewing",  "SETTLE_FIND REFUSED",     STATE_SETTLING,      ""},
  {"settling, find, renewing",  "SETTLE_FIND NEWER",       STATE_RELEASING,     "CLOSE"},
  {"settling, find, renewing",  "RENEW YES",               STATE_SETTLING,      ""},
  {"settling, find, renewing",  "RENEW NO",                STATE_SETTLING,      ""},
  {"settling, find, renewing",  "RENEW UNKNOWN",           STATE_SETTLING,      ""},

  {"settling, delete",          "stop",                    STATE_SETTLING,      ""},
  {"settling, delete",          "wake",                    STATE_SETTLING,      "RENEW"},
  {"settling, delete",          "message",                 STATE_SETTLING,      ""},
  {"settling, delete",          "lock",                    STATE_SETTLING,      ""},
  {"settling, delete",          "lost",                    STATE_SETTLING,      "RENEW"},
  {"settling, delete",          "SETTLE_DELETE YES",       STATE_SETTLING,      "SETTLE_RECORD"},
  {"settling, delete",          "SETTLE_DELETE UNKNOWN",   STATE_SETTLING,      ""},
  {"settling, delete",          "SETTLE_DELETE REFUSED",   STATE_RELEASING,     "CLOSE"},

  {"settling, record",          "stop",                    STATE_SETTLING,      ""},
  {"settling, record",          "wake",                    STATE_SETTLING,      "RENEW"},
  {"settling, record",          "message",                 STATE_SETTLING,      ""},
  {"settling, record",          "lock",                    STATE_SETTLING,      ""},
  {"settling, record",          "lost",                    STATE_SETTLING,      "RENEW"},
  {"settling, record",          "SETTLE_RECORD YES",       STATE_SETTLING,      "SETTLE_FIND"},
  {"settling, record",          "SETTLE_RECORD NO",        STATE_RELEASING,     "CLOSE"},
  {"settling, record",          "SETTLE_RECORD UNKNOWN",   STATE_SETTLING,      ""},

  {"settling, last record",     "stop",                    STATE_SETTLING,      ""},
  {"settling, last record",     "wake",                    STATE_SETTLING,      "RENEW"},
  {"settling, last record",     "message",                 STATE_SETTLING,      ""},
  {"settling, last record",     "lock",                    STATE_SETTLING,      ""},
  {"settling, last record",     "lost",                    STATE_SETTLING,      "RENEW"},
  {"settling, last record",     "SETTLE_RECORD YES",       STATE_DRAINING,      "READ"},
  {"settling, last record",     "SETTLE_RECORD NO",        STATE_RELEASING,     "CLOSE"},
  {"settling, last record",     "SETTLE_RECORD UNKNOWN",   STATE_SETTLING,      ""},

  {"settling, pause",           "stop",                    STATE_RELEASING,     "CLOSE"},
  {"settling, pause",           "wake",                    STATE_SETTLING,      "SETTLE_FIND"},
  {"settling, pause",           "message",                 STATE_SETTLING,      ""},
  {"settling, pause",           "lock",                    STATE_SETTLING,      ""},
  {"settling, pause",           "lost",                    STATE_SETTLING,      "RENEW"},

  {"settling, late",            "stop",                    STATE_RELEASING,     "CLOSE"},
  {"settling, late",            "message",                 STATE_SETTLING,      ""},
  {"settling, late",            "lock",                    STATE_SETTLING,      ""},
  {"settling, late",            "lost",                    STATE_SETTLING,      ""},
  {"settling, late",            "RENEW YES",               STATE_SETTLING,      "SETTLE_FIND"},
  {"settling, late",            "RENEW NO",                STATE_RELEASING,     "CLOSE"},
  {"settling, late",            "RENEW UNKNOWN",           STATE_SETTLING,      ""},

  {"draining, first read",      "stop",                    STATE_DRAINING,      ""},
  {"draining, first read",      "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, first read",      "message",                 STATE_DRAINING,      ""},
  {"draining, first read",      "lock",                    STATE_DRAINING,      ""},
  {"draining, first read",      "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, first read",      "READ YES",                STATE_DRAINING,      "GUARD READ"},
  {"draining, first read",      "READ NO",                 STATE_DRAINING,      ""},
  {"draining, first read",      "READ UNKNOWN",            STATE_DRAINING,      ""},
  {"draining, first read",      "READ REFUSED",            STATE_RELEASING,     "CLOSE"},

  {"draining, empty",           "stop",                    STATE_RELEASING,     "CLOSE"},
  {"draining, empty",           "wake",                    STATE_DRAINING,      "READ"},
  {"draining, empty",           "message",                 STATE_DRAINING,      "READ"},
  {"draining, empty",           "lock",                    STATE_DRAINING,      ""},
  {"draining, empty",           "lost",                    STATE_DRAINING,      "RENEW"},

  {"draining, woken",           "stop",                    STATE_DRAINING,      ""},
  {"draining, woken",           "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, woken",           "message",                 STATE_DRAINING,      ""},
  {"draining, woken",           "lock",                    STATE_DRAINING,      ""},
  {"draining, woken",           "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, woken",           "READ YES",                STATE_DRAINING,      "GUARD READ"},
  {"draining, woken",           "READ NO",                 STATE_DRAINING,      "READ"},
  {"draining, woken",           "READ UNKNOWN",            STATE_DRAINING,      ""},
  {"draining, woken",           "READ REFUSED",            STATE_RELEASING,     "CLOSE"},

  {"draining, lingered",        "stop",                    STATE_DRAINING,      ""},
  {"draining, lingered",        "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, lingered",        "message",                 STATE_DRAINING,      ""},
  {"draining, lingered",        "lock",                    STATE_DRAINING,      ""},
  {"draining, lingered",        "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, lingered",        "READ YES",                STATE_DRAINING,      "GUARD READ"},
  {"draining, lingered",        "READ NO",                 STATE_RELEASING,     "CLOSE"},
  {"draining, lingered",        "READ UNKNOWN",            STATE_RELEASING,     "CLOSE"},
  {"draining, lingered",        "READ REFUSED",            STATE_RELEASING,     "CLOSE"},

  {"draining, read, late",      "stop",                    STATE_DRAINING,      "DROP"},
  {"draining, read, late",      "message",                 STATE_DRAINING,      ""},
  {"draining, read, late",      "lock",                    STATE_DRAINING,      ""},
  {"draining, read, late",      "lost",                    STATE_DRAINING,      ""},
  {"draining, read, late",      "READ YES",                STATE_DRAINING,      ""},
  {"draining, read, late",      "READ NO",                 STATE_DRAINING,      ""},
  {"draining, read, late",      "READ UNKNOWN",            STATE_DRAINING,      ""},
  {"draining, read, late",      "READ REFUSED",            STATE_RELEASING,     "CLOSE"},
  {"draining, read, late",      "RENEW YES",               STATE_DRAINING,      ""},
  {"draining, read, late",      "RENEW NO",                STATE_DRAINING,      "DROP"},
  {"draining, read, late",      "RENEW UNKNOWN",           STATE_DRAINING,      ""},

  {"draining, guard",           "stop",                    STATE_DRAINING,      ""},
  {"draining, guard",           "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, guard",           "message",                 STATE_DRAINING,      ""},
  {"draining, guard",           "lock",                    STATE_DRAINING,      ""},
  {"draining, guard",           "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, guard",           "GUARD YES:local",         STATE_DRAINING,      "VERIFY"},
  {"draining, guard",           "GUARD YES:busy",          STATE_DRAINING,      "CREATE"},
  {"draining, guard",           "GUARD YES:exact",         STATE_DRAINING,      "APPEND"},
  {"draining, guard",           "GUARD YES:longer",        STATE_DRAINING,      "CREATE"},
  {"draining, guard",           "GUARD FAILED",            STATE_DRAINING,      ""},
  {"draining, guard",           "GUARD YES:local-exact",   STATE_DRAINING,      "VERIFY"},
  {"draining, guard",           "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, guard",           "READ NO",                 STATE_DRAINING,      ""},
  {"draining, guard",           "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"draining, guard, foreign",  "stop",                    STATE_DRAINING,      ""},
  {"draining, guard, foreign",  "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, guard, foreign",  "message",                 STATE_DRAINING,      ""},
  {"draining, guard, foreign",  "lock",                    STATE_DRAINING,      ""},
  {"draining, guard, foreign",  "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, guard, foreign",  "GUARD YES:local",         STATE_DRAINING,      "CREATE"},
  {"draining, guard, foreign",  "GUARD YES:local-exact",   STATE_DRAINING,      "VERIFY"},
  {"draining, guard, foreign",  "GUARD YES:busy",          STATE_DRAINING,      "CREATE"},
  {"draining, guard, foreign",  "GUARD YES:exact",         STATE_DRAINING,      "APPEND"},
  {"draining, guard, foreign",  "GUARD YES:longer",        STATE_DRAINING,      "CREATE"},
  {"draining, guard, foreign",  "GUARD FAILED",            STATE_DRAINING,      ""},
  {"draining, guard, foreign",  "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, guard, foreign",  "READ NO",                 STATE_DRAINING,      ""},
  {"draining, guard, foreign",  "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"draining, guard, unclean",  "stop",                    STATE_DRAINING,      ""},
  {"draining, guard, unclean",  "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, guard, unclean",  "message",                 STATE_DRAINING,      ""},
  {"draining, guard, unclean",  "lock",                    STATE_DRAINING,      ""},
  {"draining, guard, unclean",  "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, guard, unclean",  "GUARD YES:local",         STATE_DRAINING,      "CREATE"},
  {"draining, guard, unclean",  "GUARD YES:local-exact",   STATE_DRAINING,      "CREATE"},
  {"draining, guard, unclean",  "GUARD YES:busy",          STATE_DRAINING,      "CREATE"},
  {"draining, guard, unclean",  "GUARD YES:exact",         STATE_DRAINING,      "CREATE"},
  {"draining, guard, unclean",  "GUARD YES:longer",        STATE_DRAINING,      "CREATE"},
  {"draining, guard, unclean",  "GUARD FAILED",            STATE_DRAINING,      ""},
  {"draining, guard, unclean",  "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, guard, unclean",  "READ NO",                 STATE_DRAINING,      ""},
  {"draining, guard, unclean",  "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"draining, verify",          "stop",                    STATE_DRAINING,      ""},
  {"draining, verify",          "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, verify",          "message",                 STATE_DRAINING,      ""},
  {"draining, verify",          "lock",                    STATE_DRAINING,      ""},
  {"draining, verify",          "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, verify",          "VERIFY YES",              STATE_DRAINING,      "CUT"},
  {"draining, verify",          "VERIFY NO",               STATE_DRAINING,      ""},
  {"draining, verify",          "VERIFY UNKNOWN",          STATE_DRAINING,      ""},
  {"draining, verify",          "VERIFY REFUSED",          STATE_DRAINING,      ""},
  {"draining, verify",          "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, verify",          "READ NO",                 STATE_DRAINING,      ""},
  {"draining, verify",          "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"draining, verify, clean",   "stop",                    STATE_DRAINING,      ""},
  {"draining, verify, clean",   "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, verify, clean",   "message",                 STATE_DRAINING,      ""},
  {"draining, verify, clean",   "lock",                    STATE_DRAINING,      ""},
  {"draining, verify, clean",   "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, verify, clean",   "VERIFY YES",              STATE_DRAINING,      "APPEND"},
  {"draining, verify, clean",   "VERIFY NO",               STATE_DRAINING,      ""},
  {"draining, verify, clean",   "VERIFY UNKNOWN",          STATE_DRAINING,      ""},
  {"draining, verify, clean",   "VERIFY REFUSED",          STATE_DRAINING,      ""},
  {"draining, verify, clean",   "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, verify, clean",   "READ NO",                 STATE_DRAINING,      ""},
  {"draining, verify, clean",   "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"draining, cut",             "stop",                    STATE_DRAINING,      ""},
  {"draining, cut",             "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, cut",             "message",                 STATE_DRAINING,      ""},
  {"draining, cut",             "lock",                    STATE_DRAINING,      ""},
  {"draining, cut",             "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, cut",             "CUT YES",                 STATE_DRAINING,      "APPEND"},
  {"draining, cut",             "CUT FAILED",              STATE_DRAINING,      ""},
  {"draining, cut",             "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, cut",             "READ NO",                 STATE_DRAINING,      ""},
  {"draining, cut",             "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"draining, create",          "stop",                    STATE_DRAINING,      ""},
  {"draining, create",          "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, create",          "message",                 STATE_DRAINING,      ""},
  {"draining, create",          "lock",                    STATE_DRAINING,      ""},
  {"draining, create",          "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, create",          "CREATE YES",              STATE_DRAINING,      "COMMIT"},
  {"draining, create",          "CREATE NO",               STATE_DRAINING,      ""},
  {"draining, create",          "CREATE UNKNOWN",          STATE_DRAINING,      ""},
  {"draining, create",          "CREATE REFUSED",          STATE_DRAINING,      ""},
  {"draining, create",          "CREATE NO_SPACE",         STATE_DRAINING,      ""},
  {"draining, create",          "CREATE SPENT",            STATE_DRAINING,      ""},
  {"draining, create",          "CREATE FAILED",           STATE_DRAINING,      ""},
  {"draining, create",          "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, create",          "READ NO",                 STATE_DRAINING,      ""},
  {"draining, create",          "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"draining, create, first",   "stop",                    STATE_DRAINING,      ""},
  {"draining, create, first",   "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, create, first",   "message",                 STATE_DRAINING,      ""},
  {"draining, create, first",   "lock",                    STATE_DRAINING,      ""},
  {"draining, create, first",   "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, create, first",   "CREATE YES",              STATE_DRAINING,      "COMMIT"},
  {"draining, create, first",   "CREATE NO",               STATE_DRAINING,      ""},
  {"draining, create, first",   "CREATE UNKNOWN",          STATE_DRAINING,      ""},
  {"draining, create, first",   "CREATE REFUSED",          STATE_DRAINING,      ""},
  {"draining, create, first",   "CREATE NO_SPACE",         STATE_DRAINING,      ""},
  {"draining, create, first",   "CREATE SPENT",            STATE_DRAINING,      ""},
  {"draining, create, first",   "CREATE FAILED",           STATE_DRAINING,      ""},
  {"draining, create, first",   "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, create, first",   "READ NO",                 STATE_DRAINING,      ""},
  {"draining, create, first",   "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"draining, create, roll",    "stop",                    STATE_DRAINING,      ""},
  {"draining, create, roll",    "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, create, roll",    "message",                 STATE_DRAINING,      ""},
  {"draining, create, roll",    "lock",                    STATE_DRAINING,      ""},
  {"draining, create, roll",    "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, create, roll",    "CREATE YES",              STATE_DRAINING,      "COMMIT"},
  {"draining, create, roll",    "CREATE NO",               STATE_DRAINING,      ""},
  {"draining, create, roll",    "CREATE UNKNOWN",          STATE_DRAINING,      ""},
  {"draining, create, roll",    "CREATE REFUSED",          STATE_DRAINING,      ""},
  {"draining, create, roll",    "CREATE NO_SPACE",         STATE_DRAINING,      ""},
  {"draining, create, roll",    "CREATE SPENT",            STATE_DRAINING,      ""},
  {"draining, create, roll",    "CREATE FAILED",           STATE_DRAINING,      ""},
  {"draining, create, roll",    "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, create, roll",    "READ NO",                 STATE_DRAINING,      ""},
  {"draining, create, roll",    "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"draining, name",            "stop",                    STATE_DRAINING,      ""},
  {"draining, name",            "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, name",            "message",                 STATE_DRAINING,      ""},
  {"draining, name",            "lock",                    STATE_DRAINING,      ""},
  {"draining, name",            "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, name",            "COMMIT YES",              STATE_DRAINING,      "APPEND"},
  {"draining, name",            "COMMIT NO",               STATE_DRAINING,      ""},
  {"draining, name",            "COMMIT UNKNOWN",          STATE_DRAINING,      ""},
  {"draining, name",            "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, name",            "READ NO",                 STATE_DRAINING,      ""},
  {"draining, name",            "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"draining, name, unknown",   "stop",                    STATE_DRAINING,      ""},
  {"draining, name, unknown",   "wake",                    STATE_DRAINING,      "COMMIT"},
  {"draining, name, unknown",   "message",                 STATE_DRAINING,      ""},
  {"draining, name, unknown",   "lock",                    STATE_DRAINING,      ""},
  {"draining, name, unknown",   "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, name, unknown",   "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, name, unknown",   "READ NO",                 STATE_DRAINING,      ""},
  {"draining, name, unknown",   "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"draining, name, renewing",  "stop",                    STATE_DRAINING,      "DROP"},
  {"draining, name, renewing",  "wake",                    STATE_DRAINING,      ""},
  {"draining, name, renewing",  "message",                 STATE_DRAINING,      ""},
  {"draining, name, renewing",  "lock",                    STATE_DRAINING,      ""},
  {"draining, name, renewing",  "lost",                    STATE_DRAINING,      ""},
  {"draining, name, renewing",  "COMMIT YES",              STATE_DRAINING,      "APPEND"},
  {"draining, name, renewing",  "COMMIT NO",               STATE_DRAINING,      "DROP"},
  {"draining, name, renewing",  "COMMIT UNKNOWN",          STATE_DRAINING,      ""},
  {"draining, name, renewing",  "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, name, renewing",  "READ NO",                 STATE_DRAINING,      ""},
  {"draining, name, renewing",  "READ UNKNOWN",            STATE_DRAINING,      ""},
  {"draining, name, renewing",  "RENEW YES",               STATE_DRAINING,      ""},
  {"draining, name, renewing",  "RENEW NO",                STATE_DRAINING,      "DROP"},
  {"draining, name, renewing",  "RENEW UNKNOWN",           STATE_DRAINING,      ""},

  {"draining, append",          "stop",                    STATE_DRAINING,      ""},
  {"draining, append",          "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, append",          "message",                 STATE_DRAINING,      ""},
  {"draining, append",          "lock",                    STATE_DRAINING,      ""},
  {"draining, append",          "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, append",          "APPEND YES",              STATE_DRAINING,      "COMMIT"},
  {"draining, append",          "APPEND NO_SPACE",         STATE_DRAINING,      ""},
  {"draining, append",          "APPEND FAILED",           STATE_DRAINING,      ""},
  {"draining, append",          "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, append",          "READ NO",                 STATE_DRAINING,      ""},
  {"draining, append",          "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"draining, append, renew",   "stop",                    STATE_DRAINING,      "DROP"},
  {"draining, append, renew",   "wake",                    STATE_DRAINING,      ""},
  {"draining, append, renew",   "message",                 STATE_DRAINING,      ""},
  {"draining, append, renew",   "lock",                    STATE_DRAINING,      ""},
  {"draining, append, renew",   "lost",                    STATE_DRAINING,      ""},
  {"draining, append, renew",   "APPEND YES",              STATE_DRAINING,      "COMMIT"},
  {"draining, append, renew",   "APPEND NO_SPACE",         STATE_DRAINING,      ""},
  {"draining, append, renew",   "APPEND FAILED",           STATE_DRAINING,      "DROP"},
  {"draining, append, renew",   "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, append, renew",   "READ NO",                 STATE_DRAINING,      ""},
  {"draining, append, renew",   "READ UNKNOWN",            STATE_DRAINING,      ""},
  {"draining, append, renew",   "RENEW YES",               STATE_DRAINING,      ""},
  {"draining, append, renew",   "RENEW NO",                STATE_DRAINING,      "DROP"},
  {"draining, append, renew",   "RENEW UNKNOWN",           STATE_DRAINING,      ""},

  {"draining, append, stall",   "stop",                    STATE_DRAINING,      ""},
  {"draining, append, stall",   "message",                 STATE_DRAINING,      ""},
  {"draining, append, stall",   "lock",                    STATE_DRAINING,      ""},
  {"draining, append, stall",   "lost",                    STATE_DRAINING,      ""},
  {"draining, append, stall",   "APPEND YES",              STATE_DRAINING,      "COMMIT"},
  {"draining, append, stall",   "APPEND NO_SPACE",         STATE_DRAINING,      ""},
  {"draining, append, stall",   "APPEND FAILED",           STATE_DRAINING,      ""},
  {"draining, append, stall",   "READ YES",                STATE_DRAINING,      ""},
  {"draining, append, stall",   "READ NO",                 STATE_DRAINING,      ""},
  {"draining, append, stall",   "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"draining, no space",        "stop",                    STATE_DRAINING,      ""},
  {"draining, no space",        "wake",                    STATE_DRAINING,      "APPEND"},
  {"draining, no space",        "message",                 STATE_DRAINING,      ""},
  {"draining, no space",        "lock",                    STATE_DRAINING,      ""},
  {"draining, no space",        "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, no space",        "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, no space",        "READ NO",                 STATE_DRAINING,      ""},
  {"draining, no space",        "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"draining, commit",          "stop",                    STATE_DRAINING,      ""},
  {"draining, commit",          "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, commit",          "message",                 STATE_DRAINING,      ""},
  {"draining, commit",          "lock",                    STATE_DRAINING,      ""},
  {"draining, commit",          "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, commit",          "COMMIT YES",              STATE_DRAINING,      "DELETE"},
  {"draining, commit",          "COMMIT NO",               STATE_DRAINING,      ""},
  {"draining, commit",          "COMMIT UNKNOWN",          STATE_DRAINING,      ""},
  {"draining, commit",          "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, commit",          "READ NO",                 STATE_DRAINING,      ""},
  {"draining, commit",          "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"draining, commit unknown",  "stop",                    STATE_DRAINING,      ""},
  {"draining, commit unknown",  "wake",                    STATE_DRAINING,      "COMMIT"},
  {"draining, commit unknown",  "message",                 STATE_DRAINING,      ""},
  {"draining, commit unknown",  "lock",                    STATE_DRAINING,      ""},
  {"draining, commit unknown",  "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, commit unknown",  "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, commit unknown",  "READ NO",                 STATE_DRAINING,      ""},
  {"draining, commit unknown",  "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"draining, commit, late",    "stop",                    STATE_DRAINING,      "DROP"},
  {"draining, commit, late",    "message",                 STATE_DRAINING,      ""},
  {"draining, commit, late",    "lock",                    STATE_DRAINING,      ""},
  {"draining, commit, late",    "lost",                    STATE_DRAINING,      ""},
  {"draining, commit, late",    "COMMIT YES",              STATE_DRAINING,      ""},
  {"draining, commit, late",    "COMMIT NO",               STATE_DRAINING,      "DROP"},
  {"draining, commit, late",    "COMMIT UNKNOWN",          STATE_DRAINING,      ""},
  {"draining, commit, late",    "READ YES",                STATE_DRAINING,      ""},
  {"draining, commit, late",    "READ NO",                 STATE_DRAINING,      ""},
  {"draining, commit, late",    "READ UNKNOWN",            STATE_DRAINING,      ""},
  {"draining, commit, late",    "RENEW YES",               STATE_DRAINING,      ""},
  {"draining, commit, late",    "RENEW NO",                STATE_DRAINING,      "DROP"},
  {"draining, commit, late",    "RENEW UNKNOWN",           STATE_DRAINING,      ""},

  {"draining, delete",          "stop",                    STATE_DRAINING,      ""},
  {"draining, delete",          "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, delete",          "message",                 STATE_DRAINING,      ""},
  {"draining, delete",          "lock",                    STATE_DRAINING,      ""},
  {"draining, delete",          "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, delete",          "READ YES",                STATE_DRAINING,      "APPEND READ"},
  {"draining, delete",          "READ NO",                 STATE_DRAINING,      ""},
  {"draining, delete",          "READ UNKNOWN",            STATE_DRAINING,      ""},
  {"draining, delete",          "DELETE YES",              STATE_DRAINING,      ""},
  {"draining, delete",          "DELETE UNKNOWN",          STATE_DRAINING,      ""},
  {"draining, delete",          "DELETE REFUSED",          STATE_DRAINING,      ""},

  {"draining, delete of two",   "stop",                    STATE_DRAINING,      ""},
  {"draining, delete of two",   "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, delete of two",   "message",                 STATE_DRAINING,      ""},
  {"draining, delete of two",   "lock",                    STATE_DRAINING,      ""},
  {"draining, delete of two",   "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, delete of two",   "READ YES",                STATE_DRAINING,      "APPEND READ"},
  {"draining, delete of two",   "READ NO",                 STATE_DRAINING,      ""},
  {"draining, delete of two",   "READ UNKNOWN",            STATE_DRAINING,      ""},
  {"draining, delete of two",   "DELETE YES",              STATE_DRAINING,      "DELETE"},
  {"draining, delete of two",   "DELETE UNKNOWN",          STATE_DRAINING,      ""},
  {"draining, delete of two",   "DELETE REFUSED",          STATE_DRAINING,      ""},

  {"draining, all at once",     "stop",                    STATE_DRAINING,      ""},
  {"draining, all at once",     "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, all at once",     "message",                 STATE_DRAINING,      ""},
  {"draining, all at once",     "lock",                    STATE_DRAINING,      ""},
  {"draining, all at once",     "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, all at once",     "APPEND YES",              STATE_DRAINING,      "COMMIT"},
  {"draining, all at once",     "APPEND NO_SPACE",         STATE_DRAINING,      ""},
  {"draining, all at once",     "APPEND FAILED",           STATE_DRAINING,      ""},
  {"draining, all at once",     "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, all at once",     "READ NO",                 STATE_DRAINING,      ""},
  {"draining, all at once",     "READ UNKNOWN",            STATE_DRAINING,      ""},
  {"draining, all at once",     "DELETE YES",              STATE_DRAINING,      ""},
  {"draining, all at once",     "DELETE UNKNOWN",          STATE_DRAINING,      ""},
  {"draining, all at once",     "DELETE REFUSED",          STATE_DRAINING,      ""},

  {"draining, delete unknown",  "stop",                    STATE_RELEASING,     "CLOSE"},
  {"draining, delete unknown",  "wake",                    STATE_DRAINING,      "DELETE"},
  {"draining, delete unknown",  "message",                 STATE_DRAINING,      ""},
  {"draining, delete unknown",  "lock",                    STATE_DRAINING,      ""},
  {"draining, delete unknown",  "lost",                    STATE_DRAINING,      "RENEW"},

  {"draining, next pass",       "stop",                    STATE_DRAINING,      ""},
  {"draining, next pass",       "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, next pass",       "message",                 STATE_DRAINING,      ""},
  {"draining, next pass",       "lock",                    STATE_DRAINING,      ""},
  {"draining, next pass",       "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, next pass",       "READ YES",                STATE_DRAINING,      "APPEND READ"},
  {"draining, next pass",       "READ NO",                 STATE_DRAINING,      ""},
  {"draining, next pass",       "READ UNKNOWN",            STATE_DRAINING,      ""},
  {"draining, next pass",       "READ REFUSED",            STATE_RELEASING,     "CLOSE"},

  {"draining, large",           "stop",                    STATE_DRAINING,      ""},
  {"draining, large",           "wake",                    STATE_DRAINING,      "RENEW"},
  {"draining, large",           "message",                 STATE_DRAINING,      ""},
  {"draining, large",           "lock",                    STATE_DRAINING,      ""},
  {"draining, large",           "lost",                    STATE_DRAINING,      "RENEW"},
  {"draining, large",           "COMMIT YES",              STATE_DRAINING,      "DELETE"},
  {"draining, large",           "COMMIT NO",               STATE_DRAINING,      ""},
  {"draining, large",           "COMMIT UNKNOWN",          STATE_DRAINING,      ""},
  {"draining, large",           "READ YES",                STATE_DRAINING,      "READ"},
  {"draining, large",           "READ NO",                 STATE_DRAINING,      ""},
  {"draining, large",           "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"leaving, append",           "stop",                    STATE_DRAINING,      ""},
  {"leaving, append",           "wake",                    STATE_DRAINING,      "DROP"},
  {"leaving, append",           "message",                 STATE_DRAINING,      ""},
  {"leaving, append",           "lock",                    STATE_DRAINING,      ""},
  {"leaving, append",           "lost",                    STATE_DRAINING,      "RENEW"},
  {"leaving, append",           "APPEND YES",              STATE_DRAINING,      "COMMIT"},
  {"leaving, append",           "APPEND NO_SPACE",         STATE_DRAINING,      ""},
  {"leaving, append",           "APPEND FAILED",           STATE_DRAINING,      ""},
  {"leaving, append",           "READ YES",                STATE_DRAINING,      ""},
  {"leaving, append",           "READ NO",                 STATE_DRAINING,      ""},
  {"leaving, append",           "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"leaving, create",           "stop",                    STATE_DRAINING,      ""},
  {"leaving, create",           "wake",                    STATE_DRAINING,      "DROP"},
  {"leaving, create",           "message",                 STATE_DRAINING,      ""},
  {"leaving, create",           "lock",                    STATE_DRAINING,      ""},
  {"leaving, create",           "lost",                    STATE_DRAINING,      "RENEW"},
  {"leaving, create",           "CREATE YES",              STATE_DRAINING,      ""},
  {"leaving, create",           "CREATE NO",               STATE_DRAINING,      ""},
  {"leaving, create",           "CREATE UNKNOWN",          STATE_DRAINING,      ""},
  {"leaving, create",           "CREATE REFUSED",          STATE_DRAINING,      ""},
  {"leaving, create",           "CREATE NO_SPACE",         STATE_DRAINING,      ""},
  {"leaving, create",           "CREATE SPENT",            STATE_DRAINING,      ""},
  {"leaving, create",           "CREATE FAILED",           STATE_DRAINING,      ""},
  {"leaving, create",           "READ YES",                STATE_DRAINING,      ""},
  {"leaving, create",           "READ NO",                 STATE_DRAINING,      ""},
  {"leaving, create",           "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"leaving, commit",           "stop",                    STATE_DRAINING,      ""},
  {"leaving, commit",           "wake",                    STATE_DRAINING,      "DROP"},
  {"leaving, commit",           "message",                 STATE_DRAINING,      ""},
  {"leaving, commit",           "lock",                    STATE_DRAINING,      ""},
  {"leaving, commit",           "lost",                    STATE_DRAINING,      "RENEW"},
  {"leaving, commit",           "COMMIT YES",              STATE_DRAINING,      "DELETE"},
  {"leaving, commit",           "COMMIT NO",               STATE_DRAINING,      ""},
  {"leaving, commit",           "COMMIT UNKNOWN",          STATE_DRAINING,      ""},
  {"leaving, commit",           "READ YES",                STATE_DRAINING,      ""},
  {"leaving, commit",           "READ NO",                 STATE_DRAINING,      ""},
  {"leaving, commit",           "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"leaving, commit unknown",   "stop",                    STATE_DRAINING,      ""},
  {"leaving, commit unknown",   "wake",                    STATE_DRAINING,      "COMMIT"},
  {"leaving, commit unknown",   "message",                 STATE_DRAINING,      ""},
  {"leaving, commit unknown",   "lock",                    STATE_DRAINING,      ""},
  {"leaving, commit unknown",   "lost",                    STATE_DRAINING,      "RENEW"},
  {"leaving, commit unknown",   "READ YES",                STATE_DRAINING,      ""},
  {"leaving, commit unknown",   "READ NO",                 STATE_DRAINING,      ""},
  {"leaving, commit unknown",   "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"leaving, delete",           "stop",                    STATE_DRAINING,      ""},
  {"leaving, delete",           "wake",                    STATE_DRAINING,      "DROP"},
  {"leaving, delete",           "message",                 STATE_DRAINING,      ""},
  {"leaving, delete",           "lock",                    STATE_DRAINING,      ""},
  {"leaving, delete",           "lost",                    STATE_DRAINING,      "RENEW"},
  {"leaving, delete",           "READ YES",                STATE_DRAINING,      ""},
  {"leaving, delete",           "READ NO",                 STATE_DRAINING,      ""},
  {"leaving, delete",           "READ UNKNOWN",            STATE_DRAINING,      ""},
  {"leaving, delete",           "DELETE YES",              STATE_DRAINING,      ""},
  {"leaving, delete",           "DELETE UNKNOWN",          STATE_DRAINING,      ""},
  {"leaving, delete",           "DELETE REFUSED",          STATE_DRAINING,      ""},

  {"releasing, hopeless",       "stop",                    STATE_RELEASING,     ""},
  {"releasing, hopeless",       "wake",                    STATE_RELEASING,     "RENEW"},
  {"releasing, hopeless",       "message",                 STATE_RELEASING,     ""},
  {"releasing, hopeless",       "lock",                    STATE_RELEASING,     ""},
  {"releasing, hopeless",       "lost",                    STATE_RELEASING,     "RENEW"},
  {"releasing, hopeless",       "CLOSE YES",               STATE_RELEASING,     "COMMIT"},
  {"releasing, hopeless",       "CLOSE NO_SPACE",          STATE_UNLOCKING,     "UNLOCK"},
  {"releasing, hopeless",       "CLOSE FAILED",            STATE_UNLOCKING,     "UNLOCK"},

  {"leaving, fenced",           "stop",                    STATE_DRAINING,      ""},
  {"leaving, fenced",           "wake",                    STATE_DRAINING,      "DROP"},
  {"leaving, fenced",           "message",                 STATE_DRAINING,      ""},
  {"leaving, fenced",           "lock",                    STATE_DRAINING,      ""},
  {"leaving, fenced",           "lost",                    STATE_DRAINING,      ""},
  {"leaving, fenced",           "READ YES",                STATE_RELEASING,     "CLOSE"},
  {"leaving, fenced",           "READ NO",                 STATE_RELEASING,     "CLOSE"},
  {"leaving, fenced",           "READ UNKNOWN",            STATE_RELEASING,     "CLOSE"},

  {"leaving, failed",           "stop",                    STATE_DRAINING,      ""},
  {"leaving, failed",           "wake",                    STATE_DRAINING,      "DROP"},
  {"leaving, failed",           "message",                 STATE_DRAINING,      ""},
  {"leaving, failed",           "lock",                    STATE_DRAINING,      ""},
  {"leaving, failed",           "lost",                    STATE_DRAINING,      "RENEW"},
  {"leaving, failed",           "READ YES",                STATE_RELEASING,     "CLOSE"},
  {"leaving, failed",           "READ NO",                 STATE_RELEASING,     "CLOSE"},
  {"leaving, failed",           "READ UNKNOWN",            STATE_RELEASING,     "CLOSE"},

  {"leaving, lost",             "stop",                    STATE_DRAINING,      ""},
  {"leaving, lost",             "wake",                    STATE_DRAINING,      ""},
  {"leaving, lost",             "message",                 STATE_DRAINING,      ""},
  {"leaving, lost",             "lock",                    STATE_DRAINING,      ""},
  {"leaving, lost",             "lost",                    STATE_DRAINING,      ""},
  {"leaving, lost",             "APPEND YES",              STATE_DRAINING,      "COMMIT"},
  {"leaving, lost",             "APPEND NO_SPACE",         STATE_DRAINING,      ""},
  {"leaving, lost",             "APPEND FAILED",           STATE_DRAINING,      ""},
  {"leaving, lost",             "READ YES",                STATE_DRAINING,      ""},
  {"leaving, lost",             "READ NO",                 STATE_DRAINING,      ""},
  {"leaving, lost",             "READ UNKNOWN",            STATE_DRAINING,      ""},

  {"releasing, nothing",        "stop",                    STATE_RELEASING,     ""},
  {"releasing, nothing",        "wake",                    STATE_RELEASING,     "RENEW"},
  {"releasing, nothing",        "message",                 STATE_RELEASING,     ""},
  {"releasing, nothing",        "lock",                    STATE_RELEASING,     ""},
  {"releasing, nothing",        "lost",                    STATE_RELEASING,     "RENEW"},
  {"releasing, nothing",        "CLOSE YES",               STATE_RELEASING,     "COMMIT"},

  {"releasing, written",        "stop",                    STATE_RELEASING,     ""},
  {"releasing, written",        "wake",                    STATE_RELEASING,     "RENEW"},
  {"releasing, written",        "message",                 STATE_RELEASING,     ""},
  {"releasing, written",        "lock",                    STATE_RELEASING,     ""},
  {"releasing, written",        "lost",                    STATE_RELEASING,     "RENEW"},
  {"releasing, written",        "CLOSE YES",               STATE_RELEASING,     "COMMIT"},
  {"releasing, written",        "CLOSE NO_SPACE",          STATE_UNLOCKING,     "UNLOCK"},
  {"releasing, written",        "CLOSE FAILED",            STATE_UNLOCKING,     "UNLOCK"},

  {"releasing, segment",        "stop",                    STATE_RELEASING,     ""},
  {"releasing, segment",        "wake",                    STATE_RELEASING,     "RENEW"},
  {"releasing, segment",        "message",                 STATE_RELEASING,     ""},
  {"releasing, segment",        "lock",                    STATE_RELEASING,     ""},
  {"releasing, segment",        "lost",                    STATE_RELEASING,     "RENEW"},
  {"releasing, segment",        "CLOSE YES",               STATE_RELEASING,     "COMMIT"},
  {"releasing, segment",        "CLOSE YES:left",          STATE_UNLOCKING,     "UNLOCK"},

  {"releasing, failed",         "stop",                    STATE_RELEASING,     ""},
  {"releasing, failed",         "wake",                    STATE_RELEASING,     "RENEW"},
  {"releasing, failed",         "message",                 STATE_RELEASING,     ""},
  {"releasing, failed",         "lock",                    STATE_RELEASING,     ""},
  {"releasing, failed",         "lost",                    STATE_RELEASING,     "RENEW"},
  {"releasing, failed",         "CLOSE YES",               STATE_UNLOCKING,     "UNLOCK"},

  {"releasing, roll",           "stop",                    STATE_RELEASING,     ""},
  {"releasing, roll",           "wake",                    STATE_RELEASING,     "RENEW"},
  {"releasing, roll",           "message",                 STATE_RELEASING,     ""},
  {"releasing, roll",           "lock",                    STATE_RELEASING,     ""},
  {"releasing, roll",           "lost",                    STATE_RELEASING,     "RENEW"},
  {"releasing, roll",           "CLOSE YES",               STATE_RELEASING,     "COMMIT"},
  {"releasing, roll",           "CLOSE NO_SPACE",          STATE_UNLOCKING,     "UNLOCK"},
  {"releasing, roll",           "CLOSE FAILED",            STATE_UNLOCKING,     "UNLOCK"},

  {"releasing, clean",          "stop",                    STATE_RELEASING,     ""},
  {"releasing, clean",          "wake",                    STATE_RELEASING,     "RENEW"},
  {"releasing, clean",          "message",                 STATE_RELEASING,     ""},
  {"releasing, clean",          "lock",                    STATE_RELEASING,     ""},
  {"releasing, clean",          "lost",                    STATE_RELEASING,     "RENEW"},
  {"releasing, clean",          "COMMIT YES",              STATE_UNLOCKING,     "UNLOCK"},
  {"releasing, clean",          "COMMIT NO",               STATE_UNLOCKING,     "UNLOCK"},
  {"releasing, clean",          "COMMIT UNKNOWN",          STATE_RELEASING,     ""},

  {"releasing, clean, pause",   "stop",                    STATE_RELEASING,     ""},
  {"releasing, clean, pause",   "wake",                    STATE_RELEASING,     "COMMIT"},
  {"releasing, clean, pause",   "message",                 STATE_RELEASING,     ""},
  {"releasing, clean, pause",   "lock",                    STATE_RELEASING,     ""},
  {"releasing, clean, pause",   "lost",                    STATE_RELEASING,     "RENEW"},

  {"releasing, clean, stop",    "stop",                    STATE_RELEASING,     ""},
  {"releasing, clean, stop",    "wake",                    STATE_RELEASING,     "RENEW"},
  {"releasing, clean, stop",    "message",                 STATE_RELEASING,     ""},
  {"releasing, clean, stop",    "lock",                    STATE_RELEASING,     ""},
  {"releasing, clean, stop",    "lost",                    STATE_RELEASING,     "RENEW"},
  {"releasing, clean, stop",    "COMMIT YES",              STATE_UNLOCKING,     "UNLOCK"},
  {"releasing, clean, stop",    "COMMIT NO",               STATE_UNLOCKING,     "UNLOCK"},
  {"releasing, clean, stop",    "COMMIT UNKNOWN",          STATE_RELEASING,     ""},

  {"releasing, clean, roll",    "stop",                    STATE_RELEASING,     ""},
  {"releasing, clean, roll",    "wake",                    STATE_RELEASING,     "RENEW"},
  {"releasing, clean, roll",    "message",                 STATE_RELEASING,     ""},
  {"releasing, clean, roll",    "lock",                    STATE_RELEASING,     ""},
  {"releasing, clean, roll",    "lost",                    STATE_RELEASING,     "RENEW"},
  {"releasing, clean, roll",    "COMMIT YES",              STATE_FENCING,       "FENCE"},
  {"releasing, clean, roll",    "COMMIT NO",               STATE_UNLOCKING,     "UNLOCK"},
  {"releasing, clean, roll",    "COMMIT UNKNOWN",          STATE_RELEASING,     ""},

  {"releasing, clean, renew",   "stop",                    STATE_RELEASING,     ""},
  {"releasing, clean, renew",   "message",                 STATE_RELEASING,     ""},
  {"releasing, clean, renew",   "lock",                    STATE_RELEASING,     ""},
  {"releasing, clean, renew",   "lost",                    STATE_RELEASING,     ""},
  {"releasing, clean, renew",   "COMMIT YES",              STATE_UNLOCKING,     "UNLOCK"},
  {"releasing, clean, renew",   "COMMIT NO",               STATE_UNLOCKING,     "UNLOCK"},
  {"releasing, clean, renew",   "COMMIT UNKNOWN",          STATE_RELEASING,     ""},
  {"releasing, clean, renew",   "RENEW YES",               STATE_RELEASING,     ""},
  {"releasing, clean, renew",   "RENEW NO",                STATE_RELEASING,     ""},
  {"releasing, clean, renew",   "RENEW UNKNOWN",           STATE_RELEASING,     ""},

  {"releasing, to check",       "stop",                    STATE_RELEASING,     ""},
  {"releasing, to check",       "wake",                    STATE_RELEASING,     "RENEW"},
  {"releasing, to check",       "message",                 STATE_RELEASING,     ""},
  {"releasing, to check",       "lock",                    STATE_RELEASING,     ""},
  {"releasing, to check",       "lost",                    STATE_RELEASING,     "RENEW"},
  {"releasing, to check",       "CLOSE YES",               STATE_RELEASING,     "COMMIT"},

  {"releasing, to end",         "stop",                    STATE_RELEASING,     ""},
  {"releasing, to end",         "wake",                    STATE_RELEASING,     "RENEW"},
  {"releasing, to end",         "message",                 STATE_RELEASING,     ""},
  {"releasing, to end",         "lock",                    STATE_RELEASING,     ""},
  {"releasing, to end",         "lost",                    STATE_RELEASING,     "RENEW"},
  {"releasing, to end",         "CLOSE YES",               STATE_RELEASING,     "COMMIT"},

  {"unlocking",                 "stop",                    STATE_UNLOCKING,     ""},
  {"unlocking",                 "wake",                    STATE_UNLOCKING,     ""},
  {"unlocking",                 "message",                 STATE_UNLOCKING,     ""},
  {"unlocking",                 "lock",                    STATE_UNLOCKING,     ""},
  {"unlocking",                 "lost",                    STATE_UNLOCKING,     ""},
  {"unlocking",                 "UNLOCK YES",              STATE_IDLE,          ""},
  {"unlocking",                 "UNLOCK NO",               STATE_IDLE,          ""},
  {"unlocking",                 "UNLOCK UNKNOWN",          STATE_UNLOCKING,     ""},

  {"unlocking, woken",          "stop",                    STATE_UNLOCKING,     ""},
  {"unlocking, woken",          "wake",                    STATE_UNLOCKING,     ""},
  {"unlocking, woken",          "message",                 STATE_UNLOCKING,     ""},
  {"unlocking, woken",          "lock",                    STATE_UNLOCKING,     ""},
  {"unlocking, woken",          "lost",                    STATE_UNLOCKING,     ""},
  {"unlocking, woken",          "UNLOCK YES",              STATE_IDLE,          "PEEK"},
  {"unlocking, woken",          "UNLOCK NO",               STATE_IDLE,          "PEEK"},
  {"unlocking, woken",          "UNLOCK UNKNOWN",          STATE_UNLOCKING,     ""},

  {"unlocking, late",           "stop",                    STATE_UNLOCKING,     ""},
  {"unlocking, late",           "message",                 STATE_UNLOCKING,     ""},
  {"unlocking, late",           "lock",                    STATE_UNLOCKING,     ""},
  {"unlocking, late",           "lost",                    STATE_UNLOCKING,     ""},
  {"unlocking, late",           "UNLOCK YES",              STATE_IDLE,          "PEEK"},
  {"unlocking, late",           "UNLOCK NO",               STATE_IDLE,          "PEEK"},
  {"unlocking, late",           "UNLOCK UNKNOWN",          STATE_IDLE,          "PEEK"},

  {"unlocking, gave up",        "stop",                    STATE_UNLOCKING,     ""},
  {"unlocking, gave up",        "wake",                    STATE_UNLOCKING,     ""},
  {"unlocking, gave up",        "message",                 STATE_UNLOCKING,     ""},
  {"unlocking, gave up",        "lock",                    STATE_UNLOCKING,     ""},
  {"unlocking, gave up",        "lost",                    STATE_UNLOCKING,     ""},
  {"unlocking, gave up",        "UNLOCK YES",              STATE_IDLE,          ""},
  {"unlocking, gave up",        "UNLOCK NO",               STATE_IDLE,          ""},
  {"unlocking, gave up",        "UNLOCK UNKNOWN",          STATE_UNLOCKING,     ""},

  {"unlocking, to back off",    "stop",                    STATE_UNLOCKING,     ""},
  {"unlocking, to back off",    "wake",                    STATE_UNLOCKING,     ""},
  {"unlocking, to back off",    "message",                 STATE_UNLOCKING,     ""},
  {"unlocking, to back off",    "lock",                    STATE_UNLOCKING,     ""},
  {"unlocking, to back off",    "lost",                    STATE_UNLOCKING,     ""},
  {"unlocking, to back off",    "UNLOCK YES",              STATE_BACKING_OFF,   ""},
  {"unlocking, to back off",    "UNLOCK NO",               STATE_BACKING_OFF,   ""},
  {"unlocking, to back off",    "UNLOCK UNKNOWN",          STATE_UNLOCKING,     ""},

  {"unlocking, to check",       "stop",                    STATE_UNLOCKING,     ""},
  {"unlocking, to check",       "wake",                    STATE_UNLOCKING,     ""},
  {"unlocking, to check",       "message",                 STATE_UNLOCKING,     ""},
  {"unlocking, to check",       "lock",                    STATE_UNLOCKING,     ""},
  {"unlocking, to check",       "lost",                    STATE_UNLOCKING,     ""},
  {"unlocking, to check",       "UNLOCK YES",              STATE_CHECKING,      ""},
  {"unlocking, to check",       "UNLOCK NO",               STATE_CHECKING,      ""},
  {"unlocking, to check",       "UNLOCK UNKNOWN",          STATE_UNLOCKING,     ""},

  {"unlocking, to end",         "stop",                    STATE_UNLOCKING,     ""},
  {"unlocking, to end",         "wake",                    STATE_UNLOCKING,     ""},
  {"unlocking, to end",         "message",                 STATE_UNLOCKING,     ""},
  {"unlocking, to end",         "lock",                    STATE_UNLOCKING,     ""},
  {"unlocking, to end",         "lost",                    STATE_UNLOCKING,     ""},
  {"unlocking, to end",         "UNLOCK YES",              STATE_STOPPED,       ""},
  {"unlocking, to end",         "UNLOCK NO",               STATE_STOPPED,       ""},
  {"unlocking, to end",         "UNLOCK UNKNOWN",          STATE_UNLOCKING,     ""},

  {"unlocking, to done",        "stop",                    STATE_UNLOCKING,     ""},
  {"unlocking, to done",        "wake",                    STATE_UNLOCKING,     ""},
  {"unlocking, to done",        "message",                 STATE_UNLOCKING,     ""},
  {"unlocking, to done",        "lock",                    STATE_UNLOCKING,     ""},
  {"unlocking, to done",        "lost",                    STATE_UNLOCKING,     ""},
  {"unlocking, to done",        "UNLOCK YES",              STATE_DONE,          ""},
  {"unlocking, to done",        "UNLOCK NO",               STATE_DONE,          ""},
  {"unlocking, to done",        "UNLOCK UNKNOWN",          STATE_UNLOCKING,     ""},

  {"backing off",               "stop",                    STATE_DONE,          ""},
  {"backing off",               "wake",                    STATE_IDLE,          "PEEK"},
  {"backing off",               "message",                 STATE_BACKING_OFF,   ""},
  {"backing off",               "lock",                    STATE_BACKING_OFF,   ""},
  {"backing off",               "lost",                    STATE_BACKING_OFF,   ""},

  {"stopped",                   "stop",                    STATE_STOPPED,       ""},
  {"stopped",                   "message",                 STATE_STOPPED,       ""},
  {"stopped",                   "lock",                    STATE_STOPPED,       ""},
  {"stopped",                   "lost",                    STATE_STOPPED,       ""},

  {"done",                      "stop",                    STATE_DONE,          ""},
  {"done",                      "message",                 STATE_DONE,          ""},
  {"done",                      "lock",                    STATE_DONE,          ""},
  {"done",                      "lost",                    STATE_DONE,          ""},
};
/* clang-format on */

enum { SITUATIONS = sizeof situations / sizeof situations[0], ROWS = sizeof rows / sizeof rows[0] };

static void reach(struct rig *rig, const char *name)
{
  for (int i = 0; i < SITUATIONS; i++)
    if (strcmp(situations[i].name, name) == 0) {
      if (situations[i].from != NULL)
        reach(rig, situations[i].from);
      rig_play_all(rig, situations[i].events);
      return;
    }
  fail_msg("no situation is called %s", name);
}

/* ---- the events that can happen in a situation ---- */

struct events {
  char text[64][48];
  int count;
};

static void events_add(struct events *events, const char *kind, const char *result, const char *variant)
{
  assert_true(events->count < 64);
  snprintf(events->text[events->count++], sizeof events->text[0], "%s%s%s%s", kind, result[0] != 0 ? " " : "", result, variant);
}

static void events_add_answer(struct events *events, const struct action *action, enum result result)
{
  static const char *const fence[] = {":none", ":clean", ":unclean", ":unsettled"}, *const look[] = {":busy", ":expired"},
                           *const guard[] = {":local", ":local-exact", ":busy", ":exact", ":longer"}, *const plain[] = {""};
  const char *const *variants = plain;
  size_t count = 1;
  if (result == RESULT_YES && action->kind == ACTION_FENCE)
    variants = fence, count = 4;
  else if (result == RESULT_YES && action->kind == ACTION_LOOK)
    variants = look, count = 2;
  else if (result == RESULT_YES && action->kind == ACTION_GUARD)
    variants = guard, count = 5;
  for (size_t i = 0; i < count; i++)
    events_add(events, rig_kind_name(action->kind), rig_result_name(result), variants[i]);
  if (result == RESULT_YES && action->kind == ACTION_CLOSE && action->discard)
    events_add(events, "CLOSE", "YES", ":left");
}

static void events_find(const struct rig *rig, struct events *events)
{
  events->count = 0;
  events_add(events, "stop", "", "");
  if (consumer_wake_ms(&rig->consumer) < INT64_MAX)
    events_add(events, "wake", "", "");
  events_add(events, "message", "", "");
  events_add(events, "lock", "", "");
  events_add(events, "lost", "", "");
  for (int i = 0; i < ACTIVITY_COUNT; i++)
    for (enum result result = 0; rig->slots[i].running && result < RESULT_COUNT; result++)
      if (rig_may_answer(&rig->slots[i].action, result))
        events_add_answer(events, &rig->slots[i].action, result);
}

/* ---- the test ---- */

static bool printing;

static bool outcome_check(const struct rig *rig, const char *situation, const char *event, bool *used)
{
  for (int i = 0; i < ROWS; i++)
    if (strcmp(rows[i].situation, situation) == 0 && strcmp(rows[i].event, event) == 0) {
      used[i] = true;
      return rig->consumer.state == rows[i].state && strcmp(rig_started(rig), rows[i].started) == 0;
    }
  return false;
}

static void outcome_print(const struct rig *rig, const char *situation, const char *event)
{
  char state[32];
  snprintf(state, sizeof state, "%s", consumer_state_name(rig->consumer.state));
  for (char *at = state; *at != 0; at++)
    *at = *at == '-' ? '_' : (char)(*at - 'a' + 'A');
  printf("  {\"%s\", \"%s\", STATE_%s, \"%s\"},\n", situation, event, state, rig_started(rig));
}

/* A timer that comes too early starts nothing and changes nothing. */
static void early_try(struct rig *rig)
{
  enum consumer_state before = rig->consumer.state;
  if (consumer_wake_ms(&rig->consumer) == rig->moment.now_ms + 1)
    return;
  rig_play(rig, "wait 1");
  rig_expect(rig, before, "");
}

static void situation_try(const struct situation *situation, bool *used)
{
  struct consumer_options options = rig_options();
  struct events events;
  struct rig rig;
  rig_init(&rig, &options, 1);
  reach(&rig, situation->name);
  events_find(&rig, &events);
  rig_stale(&rig);
  early_try(&rig);
  rig_deinit(&rig);
  for (int i = 0; i < events.count; i++) {
    rig_init(&rig, &options, 1);
    reach(&rig, situation->name);
    rig_play(&rig, events.text[i]);
    if (printing)
      outcome_print(&rig, situation->name, events.text[i]);
    else if (!outcome_check(&rig, situation->name, events.text[i], used)) {
      fprintf(stderr, "%s: %s\n", situation->name, events.text[i]);
      rig_fail(&rig, __FILE__, __LINE__, "the outcome is in the table");
    }
    rig_deinit(&rig);
  }
}

static void test_every_state_and_event(void **state)
{
  (void)state;
  bool used[ROWS] = {false};
  for (int i = 0; i < SITUATIONS; i++)
    situation_try(&situations[i], used);
  for (int i = 0; i < ROWS && !printing; i++)
    if (!used[i])
      fail_msg("not an event of its situation: %s: %s", rows[i].situation, rows[i].event);
}

/* Each state occurs, and each action runs in some situation. */
static void test_nothing_is_left_out(void **state)
{
  (void)state;
  struct consumer_options options = rig_options();
  bool states[STATE_COUNT] = {false}, kinds[ACTION_COUNT] = {false};
  for (int i = 0; i < SITUATIONS; i++) {
    struct rig rig;
    rig_init(&rig, &options, 1);
    reach(&rig, situations[i].name);
    states[rig.consumer.state] = true;
    for (int j = 0; j < ACTIVITY_COUNT; j++)
      if (rig.slots[j].running)
        kinds[rig.slots[j].action.kind] = true;
    rig_deinit(&rig);
  }
  for (int i = 0; i < STATE_COUNT; i++)
    if (!states[i])
      fail_msg("no situation in state %s", consumer_state_name(i));
  for (int i = 0; i < ACTION_COUNT; i++)
    if (!kinds[i])
      fail_msg("no situation in which %s runs", rig_kind_name(i));
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_state_and_event),
      cmocka_unit_test(test_nothing_is_left_out),
  };
  printing = argc > 1 && strcmp(argv[1], "--print") == 0;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
