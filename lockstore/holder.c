#include "lockstore/mutex.h"

#include <time.h>
#include <unistd.h>

/* The kernel's boot id: all containers of one machine share it, as they share its page cache. */
static void boot_read(char boot[MACHINE_SIZE])
{
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  snprintf(boot, MACHINE_SIZE, "unknown");
  if (file == NULL)
    return;
  if (fgets(boot, MACHINE_SIZE, file) != NULL)
    boot[strcspn(boot, "\n")] = 0;
  fclose(file);
}

void lock_holder_self(struct lock_holder *holder, enum lock_kind kind, const char *program)
{
  *holder = (struct lock_holder){.kind = kind, .pid = getpid(), .started_wall_ms = (int64_t)time(NULL) * 1000};
  if (gethostname(holder->host, sizeof holder->host - 1) != 0)
    snprintf(holder->host, sizeof holder->host, "unknown");
  boot_read(holder->boot);
  snprintf(holder->program, sizeof holder->program, "%s", program);
}
