/* The text of /api/type: all that is known of one type. */
#include "tools/monitor/api_private.h"

static void write_segments(FILE *out, const struct track *track)
{
  fputs(", \"segments\" : [", out);
  for (int i = 0; i < track->segment_count; i++) {
    const struct track_segment *from = &track->segments[i];
    bson_t document = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&document, "file", from->file);
    BSON_APPEND_INT64(&document, "epoch", from->epoch);
    BSON_APPEND_INT64(&document, "since_ms", from->since_ms);
    BSON_APPEND_INT64(&document, "length", from->length);
    fputs(i > 0 ? ",\n" : "\n", out);
    api_write(out, &document);
  }
  fputs("]", out);
}

static void write_events(FILE *out, const struct track *track)
{
  static const char *const levels[] = {"info", "warn", "error"};
  fputs(", \"events\" : [", out);
  for (int i = track->event_count - 1; i >= 0; i--) {
    const struct track_event *event = &track->events[i];
    bson_t document = BSON_INITIALIZER;
    BSON_APPEND_INT64(&document, "at_ms", event->wall_ms);
    BSON_APPEND_UTF8(&document, "text", event->text);
    BSON_APPEND_UTF8(&document, "level", levels[event->level]);
    fputs(i < track->event_count - 1 ? ",\n" : "\n", out);
    api_write(out, &document);
  }
  fputs("]", out);
}

static void write_first(FILE *out, const struct first *first)
{
  if (first == NULL) {
    fputs(", \"first\" : null", out);
    return;
  }
  fputs(", \"first\" : [", out);
  for (int i = 0; i < first->count; i++) {
    const struct first_document *from = &first->documents[i];
    bson_t document = BSON_INITIALIZER;
    BSON_APPEND_UTF8(&document, "_id", from->id);
    BSON_APPEND_UTF8(&document, "json", from->json);
    BSON_APPEND_INT64(&document, "bytes", from->bytes);
    fputs(i > 0 ? ",\n" : "\n", out);
    api_write(out, &document);
  }
  fputs("]", out);
}

char *api_type(struct board *board, const char *type, const struct first *first, bool *found, size_t *bytes)
{
  char *text = NULL;
  board_lock(board);
  const struct overview_row *from = overview_find(&board->overview, type);
  const struct track *track = board_track(board, type);
  FILE *out = from != NULL ? open_memstream(&text, bytes) : NULL;
  *found = from != NULL;
  if (out == NULL) {
    board_unlock(board);
    return NULL;
  }
  bson_t row = BSON_INITIALIZER;
  api_fill_row(&row, board, from);
  fputs("{\"row\" : ", out);
  api_write(out, &row);
  static const struct track empty;
  write_segments(out, track != NULL ? track : &empty);
  write_events(out, track != NULL ? track : &empty);
  board_unlock(board);
  write_first(out, first);
  fputs("}\n", out);
  return api_close(out, &text);
}
