#include "worker/budget.h"

enum {
  ANSWER_BYTES_MAX = 16 * 1024 * 1024,
  COPIES = 2,   /* the answer, and the batches that are made of it */
  MARGIN = 2,   /* the next documents may be larger than the last ones */
  OVER = 2,     /* how far beyond --memory types may go that have waited too long */
  PARTS = 32,   /* less than one part of 32 is little */
  FORGETS = 16, /* a large document counts for the types that have read none yet, until so many answers have none */
};

static int64_t smaller(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* In an answer; a document whose size is not known may fill it. */
static int64_t document_bytes(const struct budget *budget, const struct budget_share *share)
{
  int64_t bytes = share->document_bytes > 0 ? share->document_bytes : budget->document_bytes;
  return bytes == 0 ? ANSWER_BYTES_MAX : smaller(bytes * MARGIN, ANSWER_BYTES_MAX);
}

static bool is_allowed(const struct budget *budget, const struct budget_share *share, int64_t bytes, bool overdue)
{
  bool alone = budget->used == share->held;
  return bytes <= budget->most - budget->used || alone || (overdue && share->held == 0 && budget->used < OVER * budget->most);
}

int64_t budget_ask(struct budget *budget, struct budget_share *share, int64_t documents, bool overdue)
{
  int64_t document = document_bytes(budget, share);
  int64_t want = COPIES * smaller(ANSWER_BYTES_MAX, document * documents), need = COPIES * document;
  int64_t limit = (budget->most - budget->used + share->held) / 2 - share->held;
  int64_t bytes = limit < need ? need : smaller(limit, want);
  /* Its own go without a READ: they are written and deleted. An answer under way comes, and needs less than is reserved for it. */
  bool more_soon = share->held > 0 || (budget->reserved > 0 && !overdue);
  if ((bytes < smaller(want, budget->most / PARTS) && more_soon) || !is_allowed(budget, share, bytes, overdue))
    return 0;
  share->reserved = bytes;
  budget->reserved += bytes;
  budget->used += bytes;
  return limit < need ? 1 : bytes == want ? documents : bytes / need;
}

void budget_answered(struct budget *budget, struct budget_share *share, int64_t bytes, int64_t documents)
{
  budget->used -= share->reserved;
  budget->reserved -= share->reserved;
  share->reserved = 0;
  if (documents == 0)
    return;
  share->document_bytes = bytes / documents + 1;
  int64_t before = budget->document_bytes - budget->document_bytes / FORGETS;
  budget->document_bytes = before > share->document_bytes ? before : share->document_bytes;
}

void budget_hold(struct budget *budget, struct budget_share *share, int64_t bytes)
{
  budget->used += bytes - share->held;
  share->held = bytes;
}
