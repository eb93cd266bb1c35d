#include "worker/port.h"
#include "worker/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 64, CLOSING = 8 };

struct connection {
  int fd; /* -1: free */
  int64_t end_ms;
  uint64_t number; /* rises with every connection; 0: shut down already */
  uint64_t network;
};

struct port {
  struct MHD_Daemon *daemon;
  int fd;   /* the library's; or, if connections may be suspended, one that watches that and `wake` */
  int wake; /* an eventfd; -1: none. The library wakes no loop but its own */
  struct port_options options;
  struct connection *connections;
  int room; /* of `connections` */
  int open; /* how many of them there are */
  uint64_t number;
};

/* ---- listening ---- */

static int listen_at(const struct addrinfo *at)
{
  int on = 1, off = 0;
  int listener = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0)
    return -1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at->ai_family == AF_INET6)
    setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off); /* "all addresses" are IPv4's too */
  if (bind(listener, at->ai_addr, at->ai_addrlen) == 0 && listen(listener, BACKLOG) == 0)
    return listener;
  int reason = errno;
  close(listener);
  errno = reason;
  return -1;
}

/* All of the machine's addresses: by IPv6, or where the kernel has none, by IPv4. */
int port_listen(const struct config_address *address, struct error *error)
{
  static const int families[] = {AF_INET6, AF_INET};
  char port[8];
  int listener = -1, reason = EAFNOSUPPORT;
  snprintf(port, sizeof port, "%u", address->port);
  for (int i = 0; i < 2 && listener < 0 && reason == EAFNOSUPPORT; i++) {
    struct addrinfo hints = {
        .ai_family = families[i], .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    if (getaddrinfo(address->host, port, &hints, &found) != 0)
      continue; /* of the other family */
    listener = listen_at(found);
    reason = errno;
    freeaddrinfo(found);
  }
  if (listener < 0)
    error_set(error, "--listen: cannot listen on port %s of %s: %s", port, address->host ? address->host : "this machine",
              strerror(reason));
  return listener;
}

/* ---- answering ---- */

struct MHD_Response *port_head(const struct port *port, struct MHD_Response *response, const char *type, const char *policy)
{
  if (response == NULL)
    return NULL;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  MHD_add_response_header(response, MHD_HTTP_HEADER_SERVER, port->options.server);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close"); /* there are few of them */
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
  MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
  MHD_add_response_header(response, "Content-Security-Policy", policy != NULL ? policy : "default-src 'none'; frame-ancestors 'none'");
  return response;
}

static enum MHD_Result answer_once(struct MHD_Connection *connection, unsigned code, struct MHD_Response *response)
{
  if (response == NULL)
    return MHD_NO;
  if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  enum MHD_Result result = MHD_queue_response(connection, code, response);
  MHD_destroy_response(response);
  return result;
}

enum MHD_Result port_answer_text(const struct port *port, struct MHD_Connection *connection, unsigned code, char *text, size_t bytes,
                                 const char *type)
{
  struct MHD_Response *response = text != NULL ? MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_MUST_FREE) : NULL;
  if (response == NULL)
    free(text);
  return answer_once(connection, code, port_head(port, response, type, NULL));
}

enum MHD_Result port_answer_line(const struct port *port, struct MHD_Connection *connection, unsigned code, const char *line)
{
  char *text = NULL;
  int bytes = asprintf(&text, "%s\n", line);
  return port_answer_text(port, connection, code, bytes < 0 ? NULL : text, (size_t)bytes, "text/plain; charset=utf-8");
}

/* Answered as soon as the head of the request is there: what body may follow is not read. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *upload, size_t *upload_bytes, void **request)
{
  const struct port *port = context;
  (void)version, (void)upload, (void)upload_bytes, (void)request;
  if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
    return port_answer_line(port, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only");
  return port->options.answer(port->options.context, connection, path);
}

/* ---- connections ---- */

static uint64_t network_of(const struct sockaddr *address)
{
  uint64_t network = 0;
  if (address->sa_family == AF_INET)
    return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr);
  if (address->sa_family != AF_INET6)
    return 0;
  const struct in6_addr *six = &((const struct sockaddr_in6 *)address)->sin6_addr;
  for (int i = 0; i < 8; i++)
    network = network << 8 | six->s6_addr[IN6_IS_ADDR_V4MAPPED(six) ? 8 + i : i];
  return network & (IN6_IS_ADDR_V4MAPPED(six) ? UINT32_MAX : UINT64_MAX);
}

/* To the library it looks as if the client had closed it. */
static void connection_end(struct connection *connection)
{
  shutdown(connection->fd, SHUT_RDWR);
  connection->number = 0;
}

static bool connection_lives(const struct connection *connection)
{
  return connection->fd >= 0 && connection->number != 0;
}

static int connections_of(const struct port *port, uint64_t network)
{
  int count = 0;
  for (int i = 0; i < port->room; i++)
    count += connection_lives(&port->connections[i]) && port->connections[i].network == network;
  return count;
}

/* A request is answered in the turn in which its head is complete, so most that stay open are idle or slow. */
static void connection_make_room(struct port *port)
{
  struct connection *victim = NULL;
  int living = 0, most = 0;
  for (int i = 0; i < port->room; i++)
    living += connection_lives(&port->connections[i]);
  for (int i = 0; i < port->room && living > port->options.connections; i++) {
    struct connection *connection = &port->connections[i];
    if (!connection_lives(connection))
      continue;
    int count = connections_of(port, connection->network);
    if (count > most || (count == most && connection->number < victim->number)) {
      most = count;
      victim = connection;
    }
  }
  if (victim != NULL)
    connection_end(victim);
}

static void connection_begin(struct port *port, struct MHD_Connection *connection, void **slot)
{
  for (int i = 0; i < port->room; i++)
    if (port->connections[i].fd < 0) {
      port->connections[i] =
          (struct connection){.fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
                              .end_ms = clock_boot_ms() + port->options.life_ms,
                              .number = ++port->number,
                              .network = network_of(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr)};
      *slot = &port->connections[i];
      port->open++;
      return;
    }
}

static void on_connection(void *context, struct MHD_Connection *connection, void **slot, enum MHD_ConnectionNotificationCode what)
{
  struct port *port = context;
  struct connection *closed = what == MHD_CONNECTION_NOTIFY_CLOSED ? *slot : NULL;
  if (closed != NULL) {
    closed->fd = -1;
    port->open--;
  }
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    connection_begin(port, connection, slot);
    connection_make_room(port);
  }
}

/* Returns when the next one's time is over; INT64_MAX: there is none. */
static int64_t connections_end(struct port *port)
{
  int64_t now = clock_boot_ms(), next = INT64_MAX;
  for (int i = 0; i < port->room; i++) {
    if (port->connections[i].fd < 0)
      continue;
    if (port->connections[i].end_ms <= now)
      connection_end(&port->connections[i]);
    else if (port->connections[i].end_ms < next)
      next = port->connections[i].end_ms;
  }
  return next;
}

/* ---- public ---- */

static bool watch(int fd, int watched)
{
  struct epoll_event event = {.events = EPOLLIN};
  return epoll_ctl(fd, EPOLL_CTL_ADD, watched, &event) == 0;
}

/* False: no descriptor, or no memory. */
static bool descriptors_open(struct port *port)
{
  port->fd = MHD_get_daemon_info(port->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
  port->wake = -1;
  if (!port->options.suspends)
    return true;
  int both = epoll_create1(EPOLL_CLOEXEC);
  port->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  bool opened = both >= 0 && port->wake >= 0 && watch(both, port->fd) && watch(both, port->wake);
  port->fd = both;
  return opened;
}

struct port *port_open(int listener, const struct port_options *options)
{
  struct port *port = calloc(1, sizeof *port);
  struct connection *connections = calloc((size_t)options->connections + CLOSING, sizeof *connections);
  if (port != NULL && connections != NULL) {
    *port = (struct port){.options = *options, .connections = connections, .room = options->connections + CLOSING};
    for (int i = 0; i < port->room; i++)
      connections[i].fd = -1;
    port->daemon = MHD_start_daemon(MHD_USE_EPOLL | (options->suspends ? MHD_ALLOW_SUSPEND_RESUME : 0), 0, NULL, NULL, on_request, port,
                                    MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT, (unsigned)port->room,
                                    MHD_OPTION_CONNECTION_TIMEOUT, options->idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                    options->request_bytes, MHD_OPTION_NOTIFY_CONNECTION, on_connection, port, MHD_OPTION_END);
    if (port->daemon != NULL && descriptors_open(port))
      return port;
  }
  free(connections);
  free(port);
  return NULL;
}

int port_fd(const struct port *port)
{
  return port->fd;
}

void port_run(struct port *port)
{
  int before;
  eventfd_t woken;
  if (port->wake >= 0)
    (void)eventfd_read(port->wake, &woken);
  connections_end(port);
  do { /* where there were too many, it does not listen before it is run once more */
    before = port->open;
    MHD_run(port->daemon);
  } while (port->open < before);
}

int64_t port_timeout_ms(struct port *port)
{
  MHD_UNSIGNED_LONG_LONG limit;
  int64_t end = connections_end(port), now = clock_boot_ms(), left = end == INT64_MAX ? -1 : end > now ? end - now : 0;
  if (MHD_get_timeout(port->daemon, &limit) != MHD_YES)
    return left;
  return left < 0 || (int64_t)limit < left ? (int64_t)limit : left;
}

void port_resume(struct port *port, struct MHD_Connection *connection)
{
  MHD_resume_connection(connection);
  (void)eventfd_write(port->wake, 1);
}
