#include "tools/status/judge.h"

static bool is_unserved(const struct overview_row *row)
{
  int64_t known_ms = row->still_ms > row->oldest_ms ? row->still_ms : row->oldest_ms;
  return !row->held && row->waiting == 0 && known_ms >= UNSERVED_MS;
}

enum finding judge_row(const struct overview_row *row)
{
  if (row->problem)
    return FINDING_PROBLEM;
  if (row->ledger.paused)
    return FINDING_PAUSED;
  if (row->ledger.moved && row->waits)
    return FINDING_MOVED;
  if (!row->waits)
    return row->refused > 0 ? FINDING_REFUSED : FINDING_NONE;
  if (row->kind == OVERVIEW_INVALID || row->kind == OVERVIEW_UNTYPED)
    return FINDING_UNUSABLE;
  if (row->held && row->lock.left_ms <= 0)
    return FINDING_EXPIRED;
  if (is_unserved(row))
    return FINDING_UNSERVED;
  if (row->still_ms < STILL_MS)
    return row->refused > 0 ? FINDING_REFUSED : FINDING_NONE;
  return row->held && row->lock.holder.kind == LOCK_BY_TOOL ? FINDING_TOOL : FINDING_STILL;
}

bool judge_is_mild(enum finding finding)
{
  return finding == FINDING_UNUSABLE || finding == FINDING_REFUSED || finding == FINDING_PAUSED;
}

const char *judge_text(enum finding finding)
{
  static const char *const texts[FINDINGS] = {
      [FINDING_NONE] = "",
      [FINDING_PROBLEM] = "its ledger or lock cannot be used",
      [FINDING_PAUSED] = "paused",
      [FINDING_EXPIRED] = "the lease of its holder is over",
      [FINDING_UNSERVED] = "no worker serves it",
      [FINDING_MOVED] = "the type was moved away, and no worker takes what waits here",
      [FINDING_STILL] = "nothing is written",
      [FINDING_TOOL] = "a tool has the lock",
      [FINDING_UNUSABLE] = "no worker can take these documents",
      [FINDING_REFUSED] = "no worker can take some documents in its own collection",
  };
  return texts[finding];
}
