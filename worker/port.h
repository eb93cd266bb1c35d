/*
 * port: an HTTP port for GET and HEAD that clients cannot fill: the health port of pawl-worker, and the port of pawl-monitor. The caller's
 * loop runs it, so an answer proves that the loop lives.
 *
 * The number of connections is limited. One more closes the oldest of the network that has the most, so a client that opens many takes
 * no place from the others. None lives longer than life_ms, and each takes request_bytes of memory at most, beside the answer.
 * A network is an IPv4 address, or 64 bits of an IPv6 address.
 *
 * One thread, the loop's; port_listen and port_resume may be called from any. Nothing blocks.
 */
#ifndef PAWL_WORKER_PORT_H
#define PAWL_WORKER_PORT_H

#include "base.h"
#include "config/config.h"

#include <microhttpd.h>

struct port;

/*
 * Answers a GET or HEAD. `path` is without the query, and decoded. MHD_NO closes the connection. A suspended connection
 * (port_options.suspends) comes here again after port_resume.
 */
typedef enum MHD_Result port_answer(void *context, struct MHD_Connection *connection, const char *path);

struct port_options {
  const char *server; /* the header Server of every answer; borrowed for ever */
  port_answer *answer;
  void *context;
  int connections;      /* kept; eight more may be being closed */
  size_t request_bytes; /* for the head of a request and of its answer */
  unsigned idle_s;
  int64_t life_ms;
  bool suspends; /* `answer` may suspend a connection (MHD_suspend_connection) */
};

/* Opens a socket that listens at the address. -1: not possible, and `error` says what failed and where. */
MUST_CHECK int port_listen(const struct config_address *address, struct error *error);
/* `listener` comes from port_listen. The result lasts as long as the process. NULL: no memory, or no descriptor; the caller
 * ends. */
MUST_CHECK struct port *port_open(int listener, const struct port_options *options);

/* The descriptor to watch for readability. */
int port_fd(const struct port *port);
/* Reads, answers and closes what is possible now. Call it when port_fd is readable, and when the time of port_timeout_ms is over. */
void port_run(struct port *port);
/* How long port_run need not be called while port_fd is not readable; -1: for ever. */
int64_t port_timeout_ms(struct port *port);

/* Resumes a suspended connection, and wakes the loop: port_fd becomes readable. Any thread. */
void port_resume(struct port *port, struct MHD_Connection *connection);

/*
 * Adds the headers that every answer has: its type, the server, that nothing keeps it, and what a browser must not do with it. `policy`
 * is the Content-Security-Policy; NULL: nothing may be loaded and nothing may run. `response` may be NULL: no memory; then so is the
 * result.
 */
MUST_CHECK struct MHD_Response *port_head(const struct port *port, struct MHD_Response *response, const char *type, const char *policy);
/* Answers with a text on the heap, which this takes. NULL: no memory. */
MUST_CHECK enum MHD_Result port_answer_text(const struct port *port, struct MHD_Connection *connection, unsigned code, char *text,
                                            size_t bytes, const char *type);
/* Answers with one line for people. */
MUST_CHECK enum MHD_Result port_answer_line(const struct port *port, struct MHD_Connection *connection, unsigned code, const char *line);

#endif
