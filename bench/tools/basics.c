#include "tools/basics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void die(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

const char *argument(char **arguments, const char *name, const char *otherwise)
{
  size_t length = strlen(name);
  for (char **at = arguments + 1; *at; at++)
    if (strncmp(*at, name, length) == 0 && (*at)[length] == '=')
      return *at + length + 1;
  if (!otherwise)
    die("%s: needs %s=…", arguments[0], name);
  return otherwise;
}

int64_t argument_number(char **arguments, const char *name, const char *otherwise)
{
  const char *text = argument(arguments, name, otherwise);
  char *end;
  int64_t number = strtoll(text, &end, 10);
  if (end == text || *end || number < 0)
    die("%s: %s=%s is no number", arguments[0], name, text);
  return number;
}

int64_t wall_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void end_at_once(void)
{
  fflush(NULL);
  _exit(0);
}
