#include "tools/monitor/board.h"
#include "lockstore/document.h"
#include "worker/clock.h"

#include <bson/bson.h>
#include <stdlib.h>

void board_init(struct board *board, const char *database, const char *server)
{
  *board = (struct board){.why = {.text = "MongoDB was not asked yet"}, .types_max = BOARD_TYPES_MAX};
  pthread_mutex_init(&board->mutex, NULL);
  snprintf(board->database, sizeof board->database, "%s", database);
  snprintf(board->server, sizeof board->server, "%s", server);
}

void board_lock(struct board *board)
{
  pthread_mutex_lock(&board->mutex);
}

void board_unlock(struct board *board)
{
  pthread_mutex_unlock(&board->mutex);
}

int64_t board_wall_ms(const struct board *board, int64_t now_ms)
{
  const struct overview *overview = &board->overview;
  return overview->read_at_ms != 0 ? overview->server_ms + now_ms - overview->read_at_ms : clock_wall_us() / 1000;
}

bool board_answers(struct board *board)
{
  board_lock(board);
  bool answers = board->answers;
  board_unlock(board);
  return answers;
}

bool board_has(struct board *board, const char *type)
{
  board_lock(board);
  bool has = overview_find(&board->overview, type) != NULL;
  board_unlock(board);
  return has;
}

/* ---- texts of others ---- */

static void row_make_utf8(struct overview_row *row)
{
  document_make_utf8(row->type);
  document_make_utf8(row->lock.holder.host);
  document_make_utf8(row->lock.holder.program);
  document_make_utf8(row->ledger.end.file);
  document_make_utf8(row->ledger.pause.by);
  document_make_utf8(row->ledger.pause.reason);
  if (row->problem != NULL)
    document_make_utf8(row->problem);
  for (int i = 0; i < row->waiting && i < OVERVIEW_WAITERS_MAX && row->waiters != NULL; i++) {
    document_make_utf8(row->waiters[i].host);
    document_make_utf8(row->waiters[i].program);
  }
}

/* ---- tracks ---- */

const struct track *board_track(const struct board *board, const char *type)
{
  size_t low = 0, high = board->track_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(board->tracks[middle]->type, type);
    if (order == 0)
      return board->tracks[middle];
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

struct folding {
  const struct overview *before, *overview;
  struct track_limits limits;
  struct track **tracks;
  size_t count;
};

static void fold_miss(struct folding *folding, struct track *track)
{
  track_miss(track, folding->overview->server_ms, &folding->limits);
  if (folding->overview->read_at_ms - track->seen_ms < TIMELINE_MS)
    folding->tracks[folding->count++] = track;
  else
    track_free(track);
}

static void fold_row(struct folding *folding, struct track *track, const struct overview_row *row)
{
  if (track == NULL && folding->count < BOARD_TYPES_MAX)
    track = track_new(row->type);
  if (track == NULL)
    return;
  track_see(track, overview_find(folding->before, row->type), row, folding->overview->read_at_ms, folding->overview->server_ms,
            &folding->limits);
  folding->tracks[folding->count++] = track;
}

/* Both lists are in order. */
static void board_fold(struct board *board, const struct overview *overview)
{
  struct track **tracks = calloc(board->track_count + overview->count + 1, sizeof *tracks);
  struct folding folding = {.before = &board->overview, .overview = overview, .limits = track_limits_of(overview->count), .tracks = tracks};
  size_t old = 0;
  if (tracks == NULL)
    return;
  for (size_t i = 0; i < overview->count; i++) {
    const struct overview_row *row = &overview->rows[i];
    while (old < board->track_count && strcmp(board->tracks[old]->type, row->type) < 0)
      fold_miss(&folding, board->tracks[old++]);
    bool known = old < board->track_count && strcmp(board->tracks[old]->type, row->type) == 0;
    fold_row(&folding, known ? board->tracks[old++] : NULL, row);
  }
  while (old < board->track_count)
    fold_miss(&folding, board->tracks[old++]);
  free(board->tracks);
  board->tracks = tracks;
  board->track_count = folding.count;
}

/* ---- readings ---- */

void board_take(struct board *board, struct overview *overview, int64_t took_ms, bool counted)
{
  struct overview_rest left_out;
  overview_cut(overview, board->types_max, &left_out);
  for (size_t i = 0; i < overview->count; i++)
    row_make_utf8(&overview->rows[i]);
  document_make_utf8(overview->unusable.text);
  document_make_utf8(overview->queue_error.text);
  board_lock(board);
  board_fold(board, overview);
  struct overview before = board->overview;
  board->overview = *overview;
  board->answers = true;
  board->version++;
  board->read_took_ms = took_ms;
  board->readings++;
  board->counts += counted;
  board->left_out.rows = left_out.rows;
  if (counted || left_out.rows == 0)
    board->left_out.unusable = left_out.unusable;
  board_unlock(board);
  *overview = (struct overview){0};
  overview_free(&before);
}

void board_fail(struct board *board, const struct error *why)
{
  board_lock(board);
  board->answers = false;
  board->why = *why;
  document_make_utf8(board->why.text);
  board->version++;
  board_unlock(board);
}
