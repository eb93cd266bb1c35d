/* What programs of the lock library are compiled with: where one of these fails, they must be compiled anew, and the version says so. */
#include "unit_test.h"

#include <pawl/lock.h>

#define FIELD(type, field, offset) _Static_assert(offsetof(struct type, field) == (offset), #type "." #field)
#define SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type)

_Static_assert(sizeof(void *) == 8, "the numbers below are those of 64 bits");

SIZE(pawl_error, 1024);
FIELD(pawl_error, text, 4);
SIZE(pawl_options, 48);
FIELD(pawl_options, uri, 8);
FIELD(pawl_options, db, 16);
FIELD(pawl_options, program, 24);
FIELD(pawl_options, lease_ms, 32);
FIELD(pawl_options, retry_ms, 40);
SIZE(pawl_want, 16);
FIELD(pawl_want, slots, 8);
SIZE(pawl_terms, 24);
FIELD(pawl_terms, wait_ms, 8);
FIELD(pawl_terms, longest_ms, 16);
SIZE(pawl_document, 40);
FIELD(pawl_document, collection, 8);
FIELD(pawl_document, field, 16);
FIELD(pawl_document, filter, 24);
FIELD(pawl_document, sort, 32);
SIZE(pawl_entry, 488);
FIELD(pawl_entry, host, 129);
FIELD(pawl_entry, program, 385);
FIELD(pawl_entry, pid, 456);
FIELD(pawl_entry, slot, 464);
FIELD(pawl_entry, place, 468);
FIELD(pawl_entry, held_ms, 472);
FIELD(pawl_entry, left_ms, 480);
SIZE(pawl_event, 1056);
FIELD(pawl_event, kind, 8);
FIELD(pawl_event, hold, 16);
FIELD(pawl_event, result, 24);
FIELD(pawl_event, reason, 28);
FIELD(pawl_event, error, 32);

_Static_assert(PAWL_OK == 0 && PAWL_BUSY == 1 && PAWL_TIMEOUT == 2 && PAWL_CANCELLED == 3 && PAWL_LOST == 4 && PAWL_FENCED == 5 &&
                   PAWL_UNKNOWN == 6 && PAWL_HELD == 7 && PAWL_MISMATCH == 8 && PAWL_NOTHING == 9 && PAWL_FOREIGN == 10 &&
                   PAWL_MALFORMED == 11 && PAWL_REFUSED == 12 && PAWL_LOGIN == 13 && PAWL_DENIED == 14 && PAWL_FORKED == 15 &&
                   PAWL_INVALID == 16 && PAWL_MEMORY == 17,
               "results");
_Static_assert(PAWL_REASON_NONE == 0 && PAWL_REASON_EXPIRED == 1 && PAWL_REASON_AWAY == 2 && PAWL_REASON_STOLEN == 3 &&
                   PAWL_REASON_REMOVED == 4 && PAWL_REASON_BROKEN == 5 && PAWL_REASON_OVER == 6 && PAWL_REASON_FORKED == 7,
               "reasons");
_Static_assert(PAWL_EVENT_WAITS == 0 && PAWL_EVENT_AWAY == 1 && PAWL_EVENT_BACK == 2 && PAWL_EVENT_HELD == 3 && PAWL_EVENT_FAILED == 4 &&
                   PAWL_EVENT_LOST == 5 && PAWL_EVENT_RELEASED == 6,
               "events");
_Static_assert(PAWL_NO_WAIT == 0 && PAWL_FOR_EVER == -1 && sizeof(pawl_hold) == 8, "values");
_Static_assert(PAWL_LOCK_VERSION_MAJOR == 0 && PAWL_LOCK_VERSION_MINOR == 1, "the version");

/* Each has a name of its own: what is called by number has a text. */
TEST(every_result_has_its_name)
{
  for (int i = PAWL_OK; i <= PAWL_MEMORY; i++)
    for (int j = PAWL_OK; j < i; j++)
      assert_string_not_equal(pawl_result_name((enum pawl_result)i), pawl_result_name((enum pawl_result)j));
  assert_string_equal(pawl_result_name(PAWL_MEMORY), "PAWL_MEMORY");
  assert_string_equal(pawl_result_name((enum pawl_result)99), "no result");
}
