/* page: the page at /, and what a browser may do with it. Build steps make both from page/ (assemble.cmake, embed.cmake). */
#ifndef PAWL_TOOLS_MONITOR_PAGE_H
#define PAWL_TOOLS_MONITOR_PAGE_H

#include <stddef.h>

extern const unsigned char page_html[];
extern const size_t page_bytes;
extern const char page_policy[]; /* its Content-Security-Policy, with the hashes of its style and its script */

#endif
