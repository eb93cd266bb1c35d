/* What the thread that waits for wake-ups tells the loop. */
#include "unit_test.h"
#include "worker/notifications.h"

#include <semaphore.h>
#include <unistd.h>

enum { FLOOD = 200 };

static struct {
  sem_t begun_again;
  int begun, told;
} reader;

enum outcome wakeup_reader_begin(struct wakeup_reader *of, struct error *error)
{
  (void)of, (void)error;
  reader.begun++;
  return OUTCOME_YES;
}

enum outcome wakeup_reader_next(struct wakeup_reader *of, int64_t await_ms, struct wakeup *wakeup, struct error *error)
{
  (void)of, (void)await_ms;
  if (reader.begun > 1) {
    sem_post(&reader.begun_again);
    for (;;)
      pause();
  }
  if (reader.told++ < FLOOD) {
    *wakeup = (struct wakeup){.type = "t1"};
    return OUTCOME_YES;
  }
  error_set(error, "the cursor is lost");
  return OUTCOME_UNKNOWN;
}

void wakeup_reader_close(struct wakeup_reader *of)
{
  (void)of;
}

static void notify(void *context)
{
  (void)context;
}

TEST(test_a_flood_hides_no_loss)
{
  struct error error;
  struct notification news;
  enum notification_kind last[2] = {NOTIFICATION_WAKEUP, NOTIFICATION_WAKEUP};
  sem_init(&reader.begun_again, 0, 0);
  struct notifications *all = notifications_start((struct wakeup_reader *)&reader, notify, NULL, &error);
  assert_non_null(all);
  notifications_go(all);
  while (sem_wait(&reader.begun_again) != 0) /* the second cursor is there, and the loop has taken nothing */
    ;
  while (notifications_take(all, &news)) {
    last[0] = last[1];
    last[1] = news.kind;
  }
  assert_int_equal(last[0], NOTIFICATIONS_LOST);
  assert_int_equal(last[1], NOTIFICATIONS_BEGUN);
  assert_true(notifications_dropped(all));
}

int main(void)
{
  return tests_run(NULL, NULL);
}
