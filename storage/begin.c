#include "storage/begin.h"

enum begin_way begin_decide(const struct continue_check *check, bool clean, bool vouched)
{
  bool in_order = clean && check->exact;
  if (!check->local)
    return in_order ? BEGIN_CONTINUE : BEGIN_SEGMENT;
  if (!check->guarded)
    return BEGIN_SEGMENT;
  return vouched ? BEGIN_VERIFY_CUT : in_order ? BEGIN_VERIFY : BEGIN_SEGMENT;
}
