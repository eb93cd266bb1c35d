#include "lockstore/ledger.h"

#include <time.h>

enum outcome ledger_moved(enum outcome outcome, const char *type, const struct ledger *ledger, struct error *error)
{
  struct tm tm;
  char at[32];
  time_t seconds = (time_t)(ledger->move.at_ms / 1000);
  if (outcome != OUTCOME_YES || !ledger->moved)
    return outcome;
  if (!gmtime_r(&seconds, &tm) || strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
    snprintf(at, sizeof at, "?");
  error_set(error, "%s was moved to %s at %s, by %s: it is served there", type, ledger->move.to, at, ledger->move.by);
  return OUTCOME_REFUSED;
}
