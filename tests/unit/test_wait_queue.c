/* Whose turn it is: the pure rules of the wait queue, as a table of queues. */
#include "lockstore/wait_queue.h"
#include "unit_test.h"

#include <ctype.h>

enum { NOW_MS = 1700000000, CALL = 1000 };

/*
 * A queue as a text, the first waiter first: a small letter is a worker, a capital one a tool. Behind it may stand what became of it:
 * `!` called a moment ago, `?` called too long ago, `*` called at a time that lies ahead, `-` expired, `+` its `at` lies too far ahead.
 */
static struct owner owner_of(char name)
{
  struct owner owner = {.bytes = {(uint8_t)name}};
  return owner;
}

static void mark(struct waiter *waiter, char sign)
{
  if (sign == '!')
    waiter->called_ms = NOW_MS - CALL + 1;
  else if (sign == '?')
    waiter->called_ms = NOW_MS - CALL;
  else if (sign == '*')
    waiter->called_ms = NOW_MS + CALL;
  else if (sign == '-')
    waiter->at_ms = NOW_MS - WAITER_TTL_MS - 1;
  else if (sign == '+')
    waiter->at_ms = NOW_MS + WAITER_TTL_MS + 1;
}

static void queue_of(struct wait_queue *queue, const char *text, char last)
{
  queue->now_ms = NOW_MS;
  queue->has_last = last != ' ';
  queue->last_kind = last == 'T' ? LOCK_BY_TOOL : LOCK_BY_WORKER;
  queue->count = 0;
  for (; *text; text++) {
    if (isalpha((unsigned char)*text))
      queue->waiters[queue->count++] = (struct waiter){.owner = owner_of(*text),
                                                       .kind = isupper((unsigned char)*text) ? LOCK_BY_TOOL : LOCK_BY_WORKER,
                                                       .at_ms = NOW_MS - WAITER_TTL_MS,
                                                       .ttl_ms = WAITER_TTL_MS};
    else if (*text != ' ')
      mark(&queue->waiters[queue->count - 1], *text);
  }
}

static char name_at(const struct wait_queue *queue, int at)
{
  return at < 0 ? '.' : (char)queue->waiters[at].owner.bytes[0];
}

TEST(whose_turn_it_is)
{
  static const struct {
    const char *queue;
    char last; /* the last holder: w a worker, T a tool, ' ' not known */
    char me, next;
  } cases[] = {
      {"", 'w', '.', '.'},
      {"", ' ', '.', '.'},
      /* Those of one kind in the order in which they came. */
      {"a b c", 'w', '.', 'a'},
      {"a b c", 'w', 'c', 'a'},
      {"A B", 'T', 'B', 'A'},
      /* By turns: after a worker a tool, after a tool a worker, if there is one. */
      {"a b C D", 'w', '.', 'C'},
      {"A B c d", 'T', '.', 'c'},
      {"a b C", 'T', '.', 'a'},
      {"A B c", 'w', '.', 'A'},
      /* Who held it last is not known: as they came. */
      {"a B", ' ', '.', 'a'},
      {"A b", ' ', '.', 'A'},
      /* Who was called has a moment, before all others, whatever its kind. */
      {"a b!", 'w', '.', 'b'},
      {"a b! C", 'w', 'C', 'b'},
      {"a! B!", 'w', '.', 'a'},
      /* It did not come: it is passed over, except by itself. */
      {"a? b", 'w', '.', 'b'},
      {"a? b", 'w', 'b', 'b'},
      {"a? b", 'w', 'a', 'a'},
      {"a? b!", 'w', 'a', 'b'},
      {"a?", 'w', '.', '.'},
      {"a B? c", 'w', '.', 'a'},
      {"a* b", 'w', '.', 'b'},
      {"a b*", 'w', 'a', 'a'},
      /* An entry does not count for ever, and not if its time is from a clock that was set back. */
      {"a- b", 'w', '.', 'b'},
      {"a+ b", 'w', '.', 'b'},
      {"a- b", 'w', 'a', 'a'},
      {"a B- C", 'w', '.', 'C'},
      {"a-! b", 'w', '.', 'b'},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct wait_queue queue;
    struct owner me = owner_of(cases[i].me);
    queue_of(&queue, cases[i].queue, cases[i].last);
    char next = name_at(&queue, wait_queue_next(&queue, &me, CALL));
    if (next != cases[i].next)
      fail_msg("\"%s\" after '%c', seen by '%c': the turn of '%c', not of '%c'", cases[i].queue, cases[i].last, cases[i].me, next,
               cases[i].next);
  }
}

/* Of several slots each that is free is for another waiter. */
TEST(who_is_to_be_called)
{
  static const struct {
    const char *queue;
    int free;
    char called;
  } cases[] = {
      {"a b", 0, '.'},     {"a b", 1, 'a'},     {"a! b", 1, '.'},    {"", 2, '.'},        {"a b", 2, 'a'},
      {"a! b c", 2, 'b'},  {"a! b", 2, 'b'},    {"a! b! c", 2, '.'}, {"a! b! c", 3, 'c'}, {"a- b! c", 2, 'c'},
      {"a! b- c", 2, 'c'}, {"a! b+ c", 2, 'c'}, {"a? b c", 2, 'b'},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct wait_queue queue;
    struct owner me = owner_of('.');
    queue_of(&queue, cases[i].queue, 'w');
    char called = name_at(&queue, wait_queue_to_call(&queue, &me, CALL, cases[i].free));
    if (called != cases[i].called)
      fail_msg("\"%s\" with %d free: '%c' is called, not '%c'", cases[i].queue, cases[i].free, called, cases[i].called);
  }
}

TEST(who_does_not_come_any_more)
{
  struct wait_queue queue;
  queue_of(&queue, "a b! c? d* e- f+", 'w');
  for (int i = 0; i < queue.count; i++)
    assert_int_equal(waiter_is_gone(&queue, &queue.waiters[i], CALL), i >= 2);
}

TEST(who_waits_of_a_kind)
{
  static const struct {
    const char *queue;
    bool workers, tools;
  } cases[] = {{"", false, false},    {"a", true, false},    {"A", false, true},   {"a B", true, true},
               {"a B-", true, false}, {"a+ B", false, true}, {"a! B!", true, true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct wait_queue queue;
    queue_of(&queue, cases[i].queue, 'w');
    if (wait_queue_has(&queue, LOCK_BY_WORKER) != cases[i].workers || wait_queue_has(&queue, LOCK_BY_TOOL) != cases[i].tools)
      fail_msg("\"%s\"", cases[i].queue);
  }
}

/* After a worker it is a tool's turn: the first worker waits for it, called or not. */
TEST(who_is_ahead)
{
  struct wait_queue queue;
  struct owner worker = owner_of('a'), tool = owner_of('B');
  queue_of(&queue, "a B", 'w');
  assert_int_equal(wait_queue_ahead(&queue, &worker, CALL), 1);
  assert_int_equal(wait_queue_ahead(&queue, &tool, CALL), 0);
}
