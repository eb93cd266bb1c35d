/*
 * hosts: which names a request may give this host in its header Host. A web page from elsewhere can point its own name at this address (DNS
 * rebinding), and its scripts could then read what the port serves. Such a request names the page's host.
 *
 * Pure; any thread.
 */
#ifndef PAWL_TOOLS_MONITOR_HOSTS_H
#define PAWL_TOOLS_MONITOR_HOSTS_H

#include "base.h"

/* Whether `names` is a comma list of host names, or of `*` for any. False: `error` says what is wrong. */
MUST_CHECK bool hosts_valid(const char *names, struct error *error);
/*
 * True for an IP address, for localhost, and for the names (NULL: none), each with or without a port. `header` NULL: the request has none,
 * as no browser sends it: true.
 */
MUST_CHECK bool host_allowed(const char *names, const char *header);

#endif
