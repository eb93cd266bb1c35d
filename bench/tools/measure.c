/*
 * Runs a command to its end and writes what it used to FILE, as one line of JSON. This program is small itself, because the kernel counts
 * the memory of the process that starts a program in that program's peak.
 *
 *   measure FILE COMMAND…
 */
#include "tools/basics.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double seconds_of(struct timeval time)
{
  return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
  struct rusage used;
  int status;
  if (argc < 3)
    die("measure: takes a file and a command");
  int64_t begin = wall_ns();
  pid_t child = vfork();
  if (child == 0) {
    execvp(argv[2], argv + 2);
    _exit(127);
  }
  if (child < 0 || wait4(child, &status, 0, &used) != child)
    die("measure: cannot run %s", argv[2]);
  double seconds = (double)(wall_ns() - begin) / 1e9;
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  FILE *file = fopen(argv[1], "w");
  if (!file)
    die("measure: cannot write %s", argv[1]);
  fprintf(file, "{\"status\": %d, \"seconds\": %.6f, \"cpu\": %.6f, \"peak_mb\": %.3f}\n", code, seconds,
          seconds_of(used.ru_utime) + seconds_of(used.ru_stime), (double)used.ru_maxrss * 1024 / 1e6);
  return fclose(file) == 0 ? code : 1;
}
