/*
 * begin: may a new epoch continue the committed file, or must it make a new segment? Pure. docs/protocol.md, "May the file be
 * continued?", has the reasons.
 *
 *   local, guard busy: a frozen writer has it open                  new segment
 *   local, guard taken, the end vouched for                         see the epoch again, cut, continue
 *   local, guard taken, not vouched for, clean and exactly as long  see the epoch again, continue
 *   local, guard taken, anything else                               new segment
 *   network or unknown, clean and exactly as long                   continue
 *   network or unknown, anything else                               new segment
 *
 * Without a file, and where a segment is large enough, nothing is to be decided.
 */
#ifndef PAWL_STORAGE_BEGIN_H
#define PAWL_STORAGE_BEGIN_H

#include "storage/writer.h"

enum begin_way {
  BEGIN_SEGMENT,    /* make a new segment */
  BEGIN_CONTINUE,   /* append to the file */
  BEGIN_VERIFY,     /* append, if the ledger still has this epoch, now that the guard is held */
  BEGIN_VERIFY_CUT, /* the same, and cut off what is beyond the committed end before */
};
/* `clean`: the last epoch ended with CLOSE. `vouched`: ledger_vouched, of the ledger as the fence found it. */
enum begin_way begin_decide(const struct continue_check *check, bool clean, bool vouched);

#endif
