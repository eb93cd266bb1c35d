#include "tools/enqueue/progress.h"

#include <unistd.h>

enum { PERIOD_MS = 200, BAR_WIDTH = 30 };

void progress_init(struct progress *progress, FILE *out, int64_t total_bytes, int64_t now_ms)
{
  bool terminal = out && isatty(fileno(out));
  *progress = (struct progress){.out = terminal ? out : NULL, .total_bytes = total_bytes, .started_ms = now_ms, .drawn_ms = now_ms};
}

static void draw_bar(FILE *out, int64_t bytes, int64_t total_bytes)
{
  double part = bytes >= total_bytes ? 1.0 : (double)bytes / (double)total_bytes;
  fputc('[', out);
  for (int i = 0; i < BAR_WIDTH; i++)
    fputc(i < (int)(part * BAR_WIDTH) ? '#' : '.', out);
  fprintf(out, "] %3d%%  ", (int)(part * 100));
}

void progress_update(struct progress *progress, int64_t bytes, int64_t messages, int64_t documents, int64_t now_ms)
{
  if (!progress->out || now_ms - progress->drawn_ms < PERIOD_MS)
    return;
  double seconds = (double)(now_ms - progress->started_ms) / 1000;
  fputc('\r', progress->out);
  if (progress->total_bytes > 0)
    draw_bar(progress->out, bytes, progress->total_bytes);
  fprintf(progress->out, "%lld message%s", (long long)messages, plural(messages));
  if (documents != messages)
    fprintf(progress->out, " in %lld document%s", (long long)documents, plural(documents));
  fprintf(progress->out, ", %.1f MiB, %.0f/s\033[K", (double)bytes / (1 << 20), (double)messages / seconds);
  fflush(progress->out);
  progress->drawn_ms = now_ms;
  progress->shown = true;
}

void progress_clear(struct progress *progress)
{
  if (progress->shown)
    fputs("\r\033[K", progress->out);
  progress->shown = false;
}
