/*
 * status: the ways in which pawl-status shows an overview: as a table or JSON, once or repeatedly; the verdict of --check; the documents of
 * --peek; the screen of --top is in top.h.
 *
 * One thread. status_check and status_peek block: for a few requests, each at most the lockstore's time-out.
 */
#ifndef PAWL_TOOLS_STATUS_STATUS_H
#define PAWL_TOOLS_STATUS_STATUS_H

#include "config/config.h"
#include "tools/overview/overview.h"

/* The types of --type. */
struct overview_types status_types(const struct config *config);

/* To stdout. */
void status_print_text(const struct overview *overview, bool rates);
void status_print_json(const struct overview *overview, bool rates);

/* An age as people say it, in its largest unit: "8s", "5m", "3h", "2d"; "-": not known. */
enum { AGE_SIZE = 24 };
void status_age_text(int64_t ms, char text[AGE_SIZE]);

/* --check: prints one line, and returns the exit code: 0 OK, 1 WARNING, 2 CRITICAL. */
MUST_CHECK int status_check_once(const struct config *config, struct lockstore *store);
/* --peek: prints the first documents; returns the exit code. */
MUST_CHECK int status_peek(const struct config *config, struct lockstore *store);

#endif
