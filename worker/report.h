/*
 * report: SIGUSR1: the whole state of a worker, in the log: one line for the process, one for each type. They are written whatever
 * --log-level says, because somebody has asked for them.
 *
 * It reads the consumers, so only the loop's thread may call it. It does not wait for the database or the disk.
 */
#ifndef PAWL_WORKER_REPORT_H
#define PAWL_WORKER_REPORT_H

#include "worker/metrics.h"

struct database_log;

void report_write(const struct metrics_view *view, const struct database_log *database, const struct consumer_options *options);

#endif
