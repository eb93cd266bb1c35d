/*
 * site: what pawl-monitor answers to each path. It changes nothing: GET and HEAD only (port.h).
 *
 *   /              the page; it is a part of the program
 *   /metrics       for Prometheus
 *   /healthz       the port's loop runs
 *   /api/types /api/history /api/timeline /api/type   JSON for the page
 *
 * The texts that grow with the number of types are made once for all clients, at most once a second, and at most a tenth of the time.
 *
 * One thread, that of the port. Nothing blocks.
 */
#ifndef PAWL_TOOLS_MONITOR_SITE_H
#define PAWL_TOOLS_MONITOR_SITE_H

#include "tools/monitor/board.h"
#include "tools/monitor/first.h"
#include "tools/monitor/reader.h"
#include "worker/port.h"

struct site_text { /* one for all clients */
  struct MHD_Response *response;
  int64_t made_ms, took_ms, version;
};

struct site {
  /* set by the caller; borrowed for ever */
  struct board *board;
  struct firsts *firsts;
  struct reader *reader;
  const char *host_names; /* hosts.h */
  int64_t started_wall_us;
  int64_t stale_ms; /* metrics.h */

  /* private */
  struct port *port;
  struct MHD_Response *page;
  struct site_text types, metrics;
};

/* `listener` comes from port_listen. The site lasts as long as the process. NULL: no memory. */
MUST_CHECK struct port *site_open(struct site *site, int listener);

#endif
