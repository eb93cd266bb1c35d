/*
 * A job for the holder of a lock: waits MILLISECONDS, then appends `begin end`, wall clock in ns, to FILE.
 *
 *   stamp FILE MILLISECONDS
 */
#include "tools/basics.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
  int64_t begin = wall_ns();
  char line[64];
  if (argc != 3)
    die("stamp: takes a file and milliseconds");
  long ms = atol(argv[2]);
  struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  nanosleep(&time, NULL);
  int file = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  int length = snprintf(line, sizeof line, "%lld %lld\n", (long long)begin, (long long)wall_ns());
  return file >= 0 && write(file, line, (size_t)length) == length && close(file) == 0 ? 0 : 1;
}
