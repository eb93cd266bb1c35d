#include "trace.h"
#include "world.h"

enum { LINES = 4096 };

bool trace_verbose;
static char lines[LINES][240];
static unsigned long count;

void trace_clear(void)
{
  count = 0;
}

void trace_add(int process, int type, const char *format, ...)
{
  char *line = lines[count++ % LINES], who[32] = "";
  va_list arguments;
  if (process >= 0 && type >= 0)
    snprintf(who, sizeof who, "worker %d, t%d", process, type);
  else if (process >= 0)
    snprintf(who, sizeof who, "worker %d", process);
  else if (type >= 0)
    snprintf(who, sizeof who, "t%d", type);
  int used = snprintf(line, sizeof lines[0], "%12.6f  %-14s ", (double)world.now_us / 1e6, who);
  va_start(arguments, format);
  vsnprintf(line + used, sizeof lines[0] - (size_t)used, format, arguments);
  va_end(arguments);
  if (trace_verbose)
    puts(line);
}

void trace_print(FILE *stream, int lines_max)
{
  unsigned long shown = count < LINES ? count : LINES;
  if (shown > (unsigned long)lines_max)
    shown = (unsigned long)lines_max;
  for (unsigned long i = count - shown; i < count; i++)
    fprintf(stream, "  %s\n", lines[i % LINES]);
}
