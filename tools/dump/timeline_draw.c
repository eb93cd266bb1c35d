/* The picture of a timeline: SVG 1.1 with a style sheet inside, nothing from outside, and no script. */
#include "tools/dump/scan.h"
#include "tools/dump/timeline_private.h"
#include "visible.h"

#include <bson/bson.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum {
  WIDTH = 1200,
  LEFT = 210, /* of the plot: the names are before it */
  PLOT = WIDTH - LEFT - 30,
  TOP = 96,
  ROW = 78,
  COLUMN_TOP = 6, /* within a row: the columns, then the bars of the epochs, then their numbers */
  COLUMN_HEIGHT = 38,
  BAR_TOP = 48,
  BAR_HEIGHT = 11,
  COLORS = 8, /* the writers with most messages; further ones share a grey */
  ELEMENTS = 2400,
  NAME_SHOWN = 26,
  TICKS_MAX = 8,
};

struct drawing {
  const struct timeline *timeline;
  FILE *out;
  int64_t first_us, last_us;
  int bins, shift;                 /* of the columns */
  int color[TIMELINE_WRITERS_MAX]; /* of each writer; COLORS: grey */
  int ranked[COLORS], ranked_count;
  struct bin columns[TIMELINE_BINS_MAX];
  struct span spans[TIMELINE_SPANS_MAX];
};

/* ---- text ---- */

/* What is no character of XML, cannot be seen, or turns the direction of the text becomes U+FFFD. */
static bool character_shown(bson_unichar_t character)
{
  return !visible_not(character) && character != 0xFFFE && character != 0xFFFF;
}

static size_t character_bytes(const char *at)
{
  unsigned char first = (unsigned char)*at;
  size_t bytes = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  return strnlen(at, bytes) == bytes && bson_utf8_validate(at, bytes, false) ? bytes : 0;
}

/* At most `most` characters of a text from a file. */
static void put_text(FILE *out, const char *text, size_t most)
{
  for (size_t shown = 0; *text != '\0'; shown++) {
    size_t bytes = character_bytes(text);
    if (shown == most) {
      fputs("…", out);
      return;
    }
    if (bytes == 0 || !character_shown(bson_utf8_get_char(text)))
      fputs("\xEF\xBF\xBD", out);
    else if (strchr("&<>\"'", *text) != NULL)
      fprintf(out, "&#%d;", *text);
    else
      fwrite(text, 1, bytes, out);
    text += bytes > 0 ? bytes : 1;
  }
}

static void put_count(FILE *out, int64_t count, const char *noun)
{
  char digits[24];
  int length = snprintf(digits, sizeof digits, "%" PRId64, count);
  for (int i = 0; i < length; i++)
    fprintf(out, "%s%c", i > 0 && (length - i) % 3 == 0 ? "," : "", digits[i]);
  fprintf(out, " %s%s", noun, plural(count));
}

static void put_amount(FILE *out, const struct amount *amount)
{
  char size[SIZE_TEXT_SIZE];
  put_count(out, amount->messages, "message");
  fprintf(out, ", %s in ", size_text(amount->bytes, size));
  put_count(out, amount->blocks, "block");
}

static void put_duration(FILE *out, int64_t us)
{
  double seconds = (double)us / 1e6;
  if (seconds < 1)
    fprintf(out, "%.0f ms", seconds * 1000);
  else if (seconds < 120)
    fprintf(out, "%.1f s", seconds);
  else if (seconds < 7200)
    fprintf(out, "%.1f min", seconds / 60);
  else if (seconds < 2 * 86400)
    fprintf(out, "%.1f h", seconds / 3600);
  else
    fprintf(out, "%.1f days", seconds / 86400);
}

static void put_times(FILE *out, int64_t from_us, int64_t to_us)
{
  char from[TIME_TEXT_SIZE], to[TIME_TEXT_SIZE];
  fprintf(out, "%s to %s (", time_text(from_us, from), time_text(to_us, to));
  put_duration(out, to_us - from_us);
  fputs(")", out);
}

static void put_writer(const struct drawing *drawing, int writer)
{
  if (writer >= 0)
    put_text(drawing->out, drawing->timeline->writers[writer].text, SIZE_MAX);
  else
    fputs(writer == WRITER_SEVERAL ? "several processes" : "a process that is not known", drawing->out);
}

/* ---- places and colours ---- */

static double x_of(const struct drawing *drawing, int64_t time_us)
{
  double at = (double)(time_us - drawing->first_us) / (double)(drawing->last_us - drawing->first_us);
  return LEFT + PLOT * (at < 0 ? 0 : at > 1 ? 1 : at);
}

static int color_of(const struct drawing *drawing, int writer)
{
  return writer >= 0 ? drawing->color[writer] : COLORS;
}

static void colors_choose(struct drawing *drawing)
{
  const struct timeline *timeline = drawing->timeline;
  for (int i = 0; i < TIMELINE_WRITERS_MAX; i++)
    drawing->color[i] = COLORS;
  for (int rank = 0; rank < COLORS && rank < timeline->writer_count; rank++) {
    int best = -1;
    for (int i = 0; i < timeline->writer_count; i++)
      if (drawing->color[i] == COLORS && (best < 0 || timeline->writers[i].messages > timeline->writers[best].messages))
        best = i;
    drawing->color[best] = rank;
    drawing->ranked[drawing->ranked_count++] = best;
  }
}

static void range_find(struct drawing *drawing)
{
  const struct timeline *timeline = drawing->timeline;
  drawing->first_us = INT64_MAX;
  drawing->last_us = INT64_MIN;
  for (int i = 0; i < timeline->row_count; i++) {
    const struct row *row = timeline->rows[i];
    drawing->first_us = row->first_us < drawing->first_us ? row->first_us : drawing->first_us;
    drawing->last_us = row->last_us > drawing->last_us ? row->last_us : drawing->last_us;
  }
  drawing->last_us += drawing->last_us == drawing->first_us; /* a picture of one moment */
  int bins = ELEMENTS / timeline->row_count;
  drawing->bins = bins > 400 ? 400 : bins;
  drawing->shift = TIMELINE_SHIFT_MIN;
  while ((drawing->last_us >> drawing->shift) - (drawing->first_us >> drawing->shift) >= drawing->bins)
    drawing->shift++;
}

/* ---- head and legend ---- */

static void put_style(FILE *out)
{
  static const char *const light[COLORS + 1] = {"#0072b2", "#e69f00", "#009e73", "#a64d79", "#56b4e9",
                                                "#7a5230", "#6a51a3", "#7f8c1f", "#8a8a8a"};
  static const char *const dark[COLORS + 1] = {"#4aa8e0", "#f2b134", "#2fc79a", "#d98ab4", "#8fd0f5",
                                               "#b98a63", "#a596dd", "#b4c24a", "#a0a0a0"};
  fputs("<style>\nsvg{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;font-size:12px}\n"
        ".bg{fill:#ffffff}text{fill:#1b1b1b}.q{fill:#5a5a5a}.h{font-size:17px;font-weight:600}.n{font-weight:600}.s{font-size:10px}\n"
        ".g{stroke:#dcdcdc;stroke-width:1}.b{stroke:#9a9a9a;stroke-width:1}\n"
        ".idle{stroke:#9a9a9a;stroke-width:1.5;stroke-dasharray:2 4}.lost{stroke:#c62828;stroke-width:2;stroke-dasharray:5 3}\n"
        ".take{fill:#1b1b1b}.bad{fill:#c62828}\n",
        out);
  for (int i = 0; i <= COLORS; i++)
    fprintf(out, ".w%d{fill:%s}", i, light[i]);
  fputs("\n@media (prefers-color-scheme:dark){\n.bg{fill:#16181c}text{fill:#ececec}.q{fill:#a8a8a8}.g{stroke:#33373d}.b{stroke:#70757c}\n"
        ".idle{stroke:#8a8f96}.lost{stroke:#ff6b6b}.take{fill:#ececec}.bad{fill:#ff6b6b}\n",
        out);
  for (int i = 0; i <= COLORS; i++)
    fprintf(out, ".w%d{fill:%s}", i, dark[i]);
  fputs("\n}\n</style>\n", out);
}

static int height_of(const struct drawing *drawing)
{
  int left_out = drawing->timeline->rows_left_out > 0;
  return TOP + drawing->timeline->row_count * ROW + 44 + 22 * ((drawing->ranked_count + 2) / 3 + 2) + 20 * left_out;
}

static void put_head(const struct drawing *drawing)
{
  FILE *out = drawing->out;
  const struct timeline *timeline = drawing->timeline;
  fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" aria-labelledby=\"title desc\">\n", WIDTH,
          height_of(drawing));
  fputs("<title id=\"title\">Who wrote when, and how much</title>\n<desc id=\"desc\">", out);
  for (int i = 0; i < timeline->row_count && i < 20; i++) {
    const struct row *row = timeline->rows[i];
    put_text(out, row->name, SIZE_MAX);
    fputs(": ", out);
    put_amount(out, &row->amount);
    fputs(", ", out);
    put_times(out, row->first_us, row->last_us);
    fputs(". ", out);
  }
  fputs("</desc>\n", out);
  put_style(out);
  fprintf(out, "<rect class=\"bg\" width=\"%d\" height=\"%d\"/>\n", WIDTH, height_of(drawing));
  fputs("<text class=\"h\" x=\"20\" y=\"28\">Who wrote when, and how much</text>\n<text class=\"q\" x=\"20\" y=\"47\">", out);
  put_times(out, drawing->first_us, drawing->last_us);
  fputs(", UTC, by the clocks of the writers; from the files alone</text>\n", out);
  fputs("<text class=\"q\" x=\"20\" y=\"64\">A colour is a process (host:pid). Columns: messages in ", out);
  put_duration(out, (int64_t)1 << drawing->shift);
  fputs(", in each row by its own highest. Bars: epochs, with their numbers. Every mark has a tooltip.</text>\n", out);
}

static void put_legend(const struct drawing *drawing, int y)
{
  FILE *out = drawing->out;
  for (int i = 0; i < drawing->ranked_count; i++) {
    const struct writer_name *writer = &drawing->timeline->writers[drawing->ranked[i]];
    int x = 20 + 390 * (i % 3), line = y + 22 * (i / 3);
    fprintf(out, "<rect class=\"w%d\" x=\"%d\" y=\"%d\" width=\"14\" height=\"11\" rx=\"2\"/><text x=\"%d\" y=\"%d\">", i, x, line - 10,
            x + 20, line);
    put_text(out, writer->text, 34);
    fputs(", ", out);
    put_count(out, writer->messages, "message");
    fputs("</text>\n", out);
  }
  y += 22 * ((drawing->ranked_count + 2) / 3);
  fprintf(out, "<rect class=\"w%d\" x=\"20\" y=\"%d\" width=\"14\" height=\"11\" rx=\"2\"/>", COLORS, y - 10);
  fprintf(out, "<text x=\"40\" y=\"%d\">others, several, or not known</text>\n", y);
  fprintf(out, "<path class=\"take\" d=\"M417 %dl4 -7h-8z\"/><text x=\"430\" y=\"%d\">another process took over</text>\n", y, y);
  fprintf(out, "<path class=\"bad\" d=\"M807 %dl4 -7h-8z\"/><text x=\"820\" y=\"%d\">the same, without a clean end before</text>\n", y, y);
  y += 22;
  fprintf(out, "<path class=\"idle\" d=\"M400 %dh24\"/><text x=\"430\" y=\"%d\">gap after a clean end</text>\n", y - 4, y);
  fprintf(out, "<path class=\"lost\" d=\"M790 %dh24\"/><text x=\"820\" y=\"%d\">gap without a clean end before it</text>\n", y - 4, y);
  if (drawing->timeline->rows_left_out > 0)
    fprintf(out, "<text class=\"q\" x=\"20\" y=\"%d\">%" PRId64 " more rows are left out: choose with --type</text>\n", y + 20,
            drawing->timeline->rows_left_out);
}

/* ---- axis ---- */

static int64_t step_choose(int64_t range_us)
{
  static const int64_t steps_ms[] = {1,       2,       5,       10,       20,       50,       100,      200,       500,       1000,
                                     2000,    5000,    10000,   15000,    30000,    60000,    120000,   300000,    600000,    900000,
                                     1800000, 3600000, 7200000, 10800000, 21600000, 43200000, 86400000, 172800000, 604800000, 1209600000};
  for (size_t i = 0; i < sizeof steps_ms / sizeof *steps_ms; i++)
    if (range_us / (steps_ms[i] * 1000) < TICKS_MAX)
      return steps_ms[i] * 1000;
  int64_t days = 30;
  while (range_us / (days * 86400000000) >= TICKS_MAX)
    days *= 2;
  return days * 86400000000;
}

static void put_tick(FILE *out, int64_t time_us, int64_t step_us)
{
  char text[TIME_TEXT_SIZE];
  const char *full = time_text(time_us, text);
  if (strlen(full) < 27) /* outside of the calendar */
    fputs(full, out);
  else if (step_us >= 86400000000)
    fprintf(out, "%.10s", full);
  else
    fprintf(out, "%.*s", step_us < 1000000 ? 12 : step_us < 60000000 ? 8 : 5, full + 11);
}

static void put_axis(const struct drawing *drawing, int bottom)
{
  FILE *out = drawing->out;
  int64_t step = step_choose(drawing->last_us - drawing->first_us);
  for (int64_t at = (drawing->first_us + step - 1) / step * step; at <= drawing->last_us; at += step) {
    double x = x_of(drawing, at);
    fprintf(out, "<path class=\"g\" d=\"M%.1f %dV%d\"/><text class=\"q s\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", x, TOP - 8, bottom,
            x, TOP - 12);
    put_tick(out, at, step);
    fputs("</text>\n", out);
  }
}

/* ---- a row ---- */

static void put_columns(struct drawing *drawing, const struct row *row, int y)
{
  FILE *out = drawing->out;
  int64_t base = row->first_us >> row->shift, most = 0, first = drawing->first_us >> drawing->shift;
  memset(drawing->columns, 0, sizeof drawing->columns);
  for (int i = 0; i < TIMELINE_BINS_MAX; i++)
    if (row->bins[i].amount.blocks > 0)
      bin_add(&drawing->columns[((base + i) >> (drawing->shift - row->shift)) - first], &row->bins[i]);
  for (int i = 0; i < drawing->bins; i++)
    most = drawing->columns[i].amount.messages > most ? drawing->columns[i].amount.messages : most;
  for (int i = 0; i < drawing->bins; i++) {
    const struct bin *bin = &drawing->columns[i];
    int64_t from = (first + i) << drawing->shift, to = (first + i + 1) << drawing->shift;
    if (bin->amount.messages == 0)
      continue;
    double x = x_of(drawing, from), width = x_of(drawing, to) - x, height = COLUMN_HEIGHT * (double)bin->amount.messages / (double)most;
    height = height < 1 ? 1 : height;
    fprintf(out, "<rect class=\"w%d\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>", color_of(drawing, bin->writer), x,
            y + COLUMN_TOP + COLUMN_HEIGHT - height, width < 1 ? 1 : width, height);
    put_times(out, from, to);
    fputs(": ", out);
    put_amount(out, &bin->amount);
    fputs(bin->by_writer < bin->amount.messages ? ", most by " : ", by ", out);
    put_writer(drawing, bin->writer);
    fputs("</title></rect>\n", out);
  }
  fprintf(out, "<text class=\"q s\" x=\"20\" y=\"%d\">highest: ", y + 56);
  put_count(out, most, "message");
  fputs("</text>\n", out);
}

static void put_span_title(const struct drawing *drawing, const struct span *span)
{
  FILE *out = drawing->out;
  if (span->epochs > 1)
    fprintf(out, "%" PRId64 " epochs, %" PRId64 " to %" PRId64 ": ", span->epochs, span->epoch_first, span->epoch_last);
  else
    fprintf(out, "epoch %" PRId64 ": ", span->epoch_first);
  put_writer(drawing, span->several ? WRITER_SEVERAL : span->writer);
  fputs(", ", out);
  put_times(out, span->from_us, span->to_us);
  fputs(": ", out);
  put_amount(out, &span->amount);
  if (span->segments > 0) {
    fputs(", made ", out);
    put_count(out, span->segments, "segment");
  }
  if (span->takeovers > 0) {
    fputs(", ", out);
    put_count(out, span->takeovers, "take-over");
  }
  if (span->unclean > 0)
    fprintf(out, ", %" PRId64 " without a clean end", span->unclean);
  fputs(span->closed ? "; ended cleanly" : "; no clean end so far", out);
}

static void put_span(const struct drawing *drawing, const struct span *span, int y)
{
  FILE *out = drawing->out;
  double x = x_of(drawing, span->from_us), width = x_of(drawing, span->to_us) - x;
  width = width < 2 ? 2 : width;
  fprintf(out, "<rect class=\"w%d\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\"><title>",
          color_of(drawing, span->several ? WRITER_SEVERAL : span->writer), x, y + BAR_TOP, width, BAR_HEIGHT);
  put_span_title(drawing, span);
  fputs("</title></rect>\n", out);
  if (span->epochs == 1 && width >= 8 + 6 * snprintf(NULL, 0, "%" PRId64, span->epoch_first))
    fprintf(out, "<text class=\"s\" x=\"%.1f\" y=\"%d\">%" PRId64 "</text>\n", x, y + BAR_TOP + BAR_HEIGHT + 10, span->epoch_first);
  else if (span->epochs > 1 && width >= 14 + 6 * snprintf(NULL, 0, "%" PRId64 "%" PRId64, span->epoch_first, span->epoch_last))
    fprintf(out, "<text class=\"s\" x=\"%.1f\" y=\"%d\">%" PRId64 "–%" PRId64 "</text>\n", x, y + BAR_TOP + BAR_HEIGHT + 10,
            span->epoch_first, span->epoch_last);
}

/* What lies between two bars: a gap, a change of the writer. */
static void put_between(const struct drawing *drawing, const struct span *span, const struct span *next, int y)
{
  FILE *out = drawing->out;
  double from = x_of(drawing, span->to_us), to = x_of(drawing, next->from_us);
  if (to - from >= 4) {
    fprintf(out, "<path class=\"%s\" d=\"M%.1f %dH%.1f\"><title>nobody wrote: ", span->closed ? "idle" : "lost", from + 2,
            y + BAR_TOP + BAR_HEIGHT / 2, to);
    put_times(out, span->to_us, next->from_us);
    fputs(span->closed ? ", after a clean end" : ", without a clean end before: a crash, a freeze, or a disk that failed", out);
    fputs("</title></path>\n", out);
  }
  if (span->writer == next->writer_first && span->closed)
    return;
  bool same = span->writer == next->writer_first;
  fprintf(out, "<path class=\"%s\" d=\"M%.1f %dl4 -7h-8z\"><title>epoch %" PRId64 ": ", span->closed ? "take" : "bad", to, y + BAR_TOP - 1,
          next->epoch_first);
  put_writer(drawing, next->writer_first);
  fputs(same ? " went on" : " took over from ", out);
  if (!same)
    put_writer(drawing, span->writer);
  fputs(span->closed ? " after a clean end</title></path>\n" : ", without a clean end before</title></path>\n", out);
}

static void put_name(const struct drawing *drawing, const struct row *row, int y)
{
  FILE *out = drawing->out;
  char size[SIZE_TEXT_SIZE];
  fprintf(out, "<text class=\"n\" x=\"20\" y=\"%d\">", y + 18);
  put_text(out, row->name, NAME_SHOWN);
  fputs("<title>", out);
  put_text(out, row->name, SIZE_MAX);
  fprintf(out, "</title></text>\n<text class=\"q s\" x=\"20\" y=\"%d\">", y + 32);
  put_count(out, row->amount.messages, "message");
  fprintf(out, ", %s</text>\n<text class=\"%s s\" x=\"20\" y=\"%d\">", size_text(row->amount.bytes, size), row->stopped ? "bad" : "q",
          y + 44);
  if (row->stopped)
    fputs("not all was read: damaged, or newer", out);
  else
    fprintf(out, "epochs %" PRId64 " to %" PRId64, row->spans[0].epoch_first, row->spans[row->span_count - 1].epoch_last);
  fputs("</text>\n", out);
}

static void put_row(struct drawing *drawing, const struct row *row, int y)
{
  fputs("<g>\n", drawing->out);
  put_name(drawing, row, y);
  put_columns(drawing, row, y);
  fprintf(drawing->out, "<path class=\"b\" d=\"M%d %dh%d\"/>\n", LEFT, y + COLUMN_TOP + COLUMN_HEIGHT, PLOT);
  memcpy(drawing->spans, row->spans, sizeof *row->spans * (size_t)row->span_count);
  int count = spans_join(drawing->spans, row->span_count, drawing->shift);
  for (int i = 0; i < count; i++)
    put_span(drawing, &drawing->spans[i], y);
  for (int i = 0; i + 1 < count; i++)
    put_between(drawing, &drawing->spans[i], &drawing->spans[i + 1], y);
  fputs("</g>\n", drawing->out);
}

void timeline_draw(const struct timeline *timeline, FILE *out)
{
  struct drawing *drawing = calloc(1, sizeof *drawing);
  if (drawing == NULL)
    return; /* the caller finds an empty text */
  drawing->timeline = timeline;
  drawing->out = out;
  colors_choose(drawing);
  range_find(drawing);
  put_head(drawing);
  int bottom = TOP + timeline->row_count * ROW;
  put_axis(drawing, bottom);
  for (int i = 0; i < timeline->row_count; i++)
    put_row(drawing, timeline->rows[i], TOP + i * ROW);
  put_legend(drawing, bottom + 28);
  fputs("</svg>\n", out);
  free(drawing);
}
