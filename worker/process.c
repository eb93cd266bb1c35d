#include "worker/process.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

static double seconds(const struct timeval *time)
{
  return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static int64_t resident_bytes(void)
{
  long long pages = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (file == NULL)
    return -1;
  bool found = fscanf(file, "%*d %lld", &pages) == 1;
  fclose(file);
  return found ? pages * sysconf(_SC_PAGESIZE) : -1;
}

static int64_t open_fds(void)
{
  int64_t count = 0;
  DIR *links = opendir("/proc/self/fd");
  if (links == NULL)
    return -1;
  for (const struct dirent *entry; (entry = readdir(links)) != NULL;)
    count += entry->d_name[0] != '.';
  closedir(links);
  return count - 1; /* its own */
}

void process_look(struct process_use *use)
{
  struct rusage usage;
  struct rlimit limit;
  use->cpu_seconds = getrusage(RUSAGE_SELF, &usage) == 0 ? seconds(&usage.ru_utime) + seconds(&usage.ru_stime) : -1;
  use->resident_bytes = resident_bytes();
  use->open_fds = open_fds();
  use->max_fds = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= (rlim_t)INT64_MAX ? (int64_t)limit.rlim_cur : -1;
}
