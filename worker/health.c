#include "worker/health.h"
#include "worker/clock.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
  CONNECTIONS_KEPT = 32,                  /* one more closes the oldest: an idle client takes no place from one that asks */
  CONNECTIONS_MAX = CONNECTIONS_KEPT + 8, /* with those that are being closed */
  CONNECTION_BYTES = 8 * 1024,            /* for the request and the head of the answer */
  IDLE_S = 5,
  LIFE_MS = 10000, /* who sends a byte now and then is never idle */
  BACKLOG = 64,
};

struct connection {
  int fd; /* -1: free */
  int64_t end_ms;
  uint64_t number; /* rises with every connection; 0: shut down already */
};

struct health {
  struct MHD_Daemon *daemon;
  health_look *look;
  void *context;
  struct connection connections[CONNECTIONS_MAX];
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
int health_listen(const struct config_address *address, struct error *error)
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

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned code, char *text, size_t bytes, const char *type)
{
  struct MHD_Response *response = text != NULL ? MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_MUST_FREE) : NULL;
  if (response == NULL) {
    free(text);
    return MHD_NO;
  }
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  MHD_add_response_header(response, MHD_HTTP_HEADER_SERVER, HEALTH_SERVER "/" PAWL_VERSION);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close"); /* there are few of them */
  if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  enum MHD_Result result = MHD_queue_response(connection, code, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result answer_line(struct MHD_Connection *connection, unsigned code, const char *line)
{
  char *text = NULL;
  int bytes = asprintf(&text, "%s\n", line);
  return answer(connection, code, bytes < 0 ? NULL : text, (size_t)bytes, "text/plain; charset=utf-8");
}

static enum MHD_Result answer_ready(struct MHD_Connection *connection, const struct metrics_view *view)
{
  struct error why;
  if (metrics_ready(view, &why))
    return answer_line(connection, MHD_HTTP_OK, "ready");
  return answer_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE, why.text);
}

static enum MHD_Result answer_metrics(struct MHD_Connection *connection, const struct metrics_view *view)
{
  size_t bytes = 0;
  char *text = metrics_text(view, &bytes);
  return answer(connection, MHD_HTTP_OK, text, bytes, "text/plain; version=0.0.4; charset=utf-8");
}

/* Answered as soon as the head of the request is there: what body may follow is not read. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_bytes, void **request)
{
  struct health *health = context;
  struct metrics_view view = {0};
  (void)version, (void)upload, (void)upload_bytes, (void)request;
  if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
    return answer_line(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only");
  if (strcmp(url, "/healthz") == 0)
    return answer_line(connection, MHD_HTTP_OK, "ok");
  health->look(health->context, &view);
  if (strcmp(url, "/readyz") == 0)
    return answer_ready(connection, &view);
  if (strcmp(url, "/metrics") == 0)
    return answer_metrics(connection, &view);
  return answer_line(connection, MHD_HTTP_NOT_FOUND, "here are /healthz, /readyz and /metrics");
}

/* ---- connections ---- */

/* To the library it looks as if the client had closed it. */
static void connection_end(struct connection *connection)
{
  shutdown(connection->fd, SHUT_RDWR);
  connection->number = 0;
}

/* A request is answered in the turn in which its head is complete, so all that stay open are idle or slow. */
static void connection_make_room(struct health *health)
{
  struct connection *oldest = NULL;
  int living = 0;
  for (int i = 0; i < CONNECTIONS_MAX; i++) {
    struct connection *connection = &health->connections[i];
    if (connection->fd < 0 || connection->number == 0)
      continue;
    living++;
    if (oldest == NULL || connection->number < oldest->number)
      oldest = connection;
  }
  if (living > CONNECTIONS_KEPT)
    connection_end(oldest);
}

static void connection_begin(struct health *health, struct MHD_Connection *connection, void **slot)
{
  for (int i = 0; i < CONNECTIONS_MAX; i++)
    if (health->connections[i].fd < 0) {
      health->connections[i].fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
      health->connections[i].end_ms = clock_boot_ms() + LIFE_MS;
      health->connections[i].number = ++health->number;
      *slot = &health->connections[i];
      health->open++;
      return;
    }
}

static void on_connection(void *context, struct MHD_Connection *connection, void **slot, enum MHD_ConnectionNotificationCode what)
{
  struct health *health = context;
  struct connection *closed = what == MHD_CONNECTION_NOTIFY_CLOSED ? *slot : NULL;
  if (closed != NULL) {
    closed->fd = -1;
    health->open--;
  }
  if (what == MHD_CONNECTION_NOTIFY_STARTED) {
    connection_begin(health, connection, slot);
    connection_make_room(health);
  }
}

/* Returns when the next one's time is over; INT64_MAX: there is none. */
static int64_t connections_end(struct health *health)
{
  int64_t now = clock_boot_ms(), next = INT64_MAX;
  for (int i = 0; i < CONNECTIONS_MAX; i++) {
    if (health->connections[i].fd < 0)
      continue;
    if (health->connections[i].end_ms <= now)
      connection_end(&health->connections[i]);
    else if (health->connections[i].end_ms < next)
      next = health->connections[i].end_ms;
  }
  return next;
}

/* ---- public ---- */

struct health *health_open(int listener, health_look *look, void *context)
{
  struct health *health = calloc(1, sizeof *health);
  if (health == NULL)
    return NULL;
  health->look = look;
  health->context = context;
  for (int i = 0; i < CONNECTIONS_MAX; i++)
    health->connections[i].fd = -1;
  health->daemon =
      MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, health, MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_CONNECTION_LIMIT,
                       (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                       (size_t)CONNECTION_BYTES, MHD_OPTION_NOTIFY_CONNECTION, on_connection, health, MHD_OPTION_END);
  if (health->daemon != NULL)
    return health;
  free(health);
  return NULL;
}

int health_fd(const struct health *health)
{
  return MHD_get_daemon_info(health->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

void health_run(struct health *health)
{
  int before;
  connections_end(health);
  do { /* where there were too many, it does not listen before it is run once more */
    before = health->open;
    MHD_run(health->daemon);
  } while (health->open < before);
}

int64_t health_timeout_ms(struct health *health)
{
  MHD_UNSIGNED_LONG_LONG limit;
  int64_t end = connections_end(health), now = clock_boot_ms(), left = end == INT64_MAX ? -1 : end > now ? end - now : 0;
  if (MHD_get_timeout(health->daemon, &limit) != MHD_YES)
    return left;
  return left < 0 || (int64_t)limit < left ? (int64_t)limit : left;
}
