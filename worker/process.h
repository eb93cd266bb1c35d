/*
 * process: what the kernel says of this process, for the metrics that every program has. Any thread; only /proc and system calls that do
 * not wait.
 */
#ifndef PAWL_WORKER_PROCESS_H
#define PAWL_WORKER_PROCESS_H

#include "base.h"

struct process_use { /* below 0: the kernel does not say */
  double cpu_seconds;
  int64_t resident_bytes, open_fds, max_fds;
};

void process_look(struct process_use *use);

#endif
