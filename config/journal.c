/* The priority that systemd's journal expects before a line on stderr. */
#include "config/config.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* systemd names device and inode of the stream that it reads. A child whose stderr goes elsewhere inherits the variable, too. */
bool config_journal(void)
{
  const char *stream = getenv("JOURNAL_STREAM");
  struct stat status;
  unsigned long long device, inode;
  return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(STDERR_FILENO, &status) == 0 &&
         status.st_dev == (dev_t)device && status.st_ino == (ino_t)inode;
}

/* See sd-daemon(3); the numbers are those of syslog. */
const char *config_priority(enum config_log_level level)
{
  static const char *const priorities[] = {
      [CONFIG_LOG_ERROR] = "<3>", [CONFIG_LOG_WARN] = "<4>", [CONFIG_LOG_INFO] = "<6>", [CONFIG_LOG_DEBUG] = "<7>"};
  return config_journal() ? priorities[level] : "";
}
