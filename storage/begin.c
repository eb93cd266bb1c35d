#include "storage/begin.h"

enum begin_way begin_decide(const struct writer_ground *ground, bool clean, bool vouched)
{
  bool in_order = clean && ground->exact;
  if (!ground->local)
    return in_order ? BEGIN_CONTINUE : BEGIN_SEGMENT;
  if (!ground->guarded)
    return BEGIN_SEGMENT;
  return vouched ? BEGIN_VERIFY_CUT : in_order ? BEGIN_VERIFY : BEGIN_SEGMENT;
}
