#include "lockstore/connection_private.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
  PROGRESS_BYTES = 64 * 1024, /* fewer than these within the time-out are no progress */
  STREAM_TYPE = 1000,         /* the driver's own are below 10 */
};

/* The stream below the driver; TLS lies between them. The driver frees it. */
struct stream {
  mongoc_stream_t driver; /* first: a stream is a mongoc_stream_t */
  struct mongo_connection *connection;
  int fd;
  int cause;      /* errno of the last call; 0: it went well */
  int64_t due_ms; /* until then more must have come */
  size_t heard;   /* bytes since the last request */
};

static int64_t now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the stream ---- */

static ssize_t failed(struct stream *stream, int cause)
{
  errno = stream->cause = cause;
  return -1;
}

/* Until the socket is ready, and no later than `until_ms`. False: the cause is in the stream. */
static bool ready(struct stream *stream, short events, int64_t until_ms)
{
  struct pollfd polled[] = {{.fd = stream->fd, .events = events}, {.fd = stream->connection->drop, .events = POLLIN}};
  for (;;) {
    int64_t left = until_ms - now_ms();
    int count = poll(polled, 2, left > INT32_MAX ? INT32_MAX : left > 0 ? (int)left : 0);
    if (count < 0 && errno == EINTR)
      continue;
    if (count > 0 && polled[1].revents != 0)
      return failed(stream, ECANCELED) == 0;
    if (count > 0)
      return true;
    if (count < 0 || left <= 0)
      return failed(stream, count < 0 ? errno : ETIMEDOUT) == 0;
  }
}

/* The caller's time-out, which as a rule is a day, and the stream's own. */
static int64_t until(const struct stream *stream, int32_t timeout_ms)
{
  int64_t callers = timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms;
  return callers < stream->due_ms ? callers : stream->due_ms;
}

static void bytes_heard(struct stream *stream, size_t bytes)
{
  if (stream->heard == 0 || stream->heard / PROGRESS_BYTES != (stream->heard + bytes) / PROGRESS_BYTES)
    stream->due_ms = now_ms() + mongo_timeout_ms(stream->connection->mongo);
  stream->heard += bytes;
}

/* Takes bytes from the front of the vector; what is left of it. */
static size_t vector_advance(mongoc_iovec_t **vector, size_t count, size_t bytes)
{
  while (count > 0 && bytes >= (*vector)->iov_len) {
    bytes -= (*vector)->iov_len;
    (*vector)++;
    count--;
  }
  if (count > 0) {
    (*vector)->iov_base = (char *)(*vector)->iov_base + bytes;
    (*vector)->iov_len -= bytes;
  }
  return count;
}

static bool try_again(int cause)
{
  return cause == EAGAIN || cause == EWOULDBLOCK || cause == EINTR;
}

/* As the driver's own socket does it: -1 unless at least `least` bytes came; without a time-out what is there. */
static ssize_t stream_readv(mongoc_stream_t *driver, mongoc_iovec_t *vector, size_t count, size_t least, int32_t timeout_ms)
{
  struct stream *stream = (struct stream *)driver;
  size_t got = 0;
  stream->cause = 0;
  while (count > 0) {
    struct msghdr message = {.msg_iov = vector, .msg_iovlen = count};
    ssize_t bytes = recvmsg(stream->fd, &message, 0);
    if (bytes > 0) {
      got += (size_t)bytes;
      bytes_heard(stream, (size_t)bytes);
      count = vector_advance(&vector, count, (size_t)bytes);
      if (got >= least)
        break;
    } else if (bytes == 0) { /* the other side has closed */
      return got >= least ? (ssize_t)got : failed(stream, ECONNRESET);
    } else if (!try_again(errno) || timeout_ms == 0) {
      return failed(stream, errno);
    } else if (!ready(stream, POLLIN, until(stream, timeout_ms))) {
      return -1;
    }
  }
  return (ssize_t)got;
}

static int64_t first_byte_ms(const struct mongo_connection *connection)
{
  return connection->for_majority ? mongo_majority_ms(connection->mongo) : mongo_timeout_ms(connection->mongo);
}

static ssize_t stream_writev(mongoc_stream_t *driver, mongoc_iovec_t *vector, size_t count, int32_t timeout_ms)
{
  struct stream *stream = (struct stream *)driver;
  mongoc_iovec_t copy[16], *left = copy;
  size_t sent = 0;
  if (count > sizeof copy / sizeof *copy)
    return failed(stream, EINVAL);
  memcpy(copy, vector, count * sizeof *vector);
  stream->connection->asked = true;
  stream->cause = 0;
  stream->heard = 0; /* a request: what comes now is the next reply */
  stream->due_ms = now_ms() + first_byte_ms(stream->connection);
  while (count > 0) {
    struct msghdr message = {.msg_iov = left, .msg_iovlen = count};
    ssize_t bytes = sendmsg(stream->fd, &message, MSG_NOSIGNAL);
    if (bytes >= 0) {
      sent += (size_t)bytes;
      count = vector_advance(&left, count, (size_t)bytes);
    } else if (!try_again(errno) || timeout_ms == 0) {
      ssize_t nothing = failed(stream, errno);
      return sent > 0 && try_again(stream->cause) ? (ssize_t)sent : nothing;
    } else if (!ready(stream, POLLOUT, until(stream, timeout_ms))) {
      return -1;
    }
  }
  return (ssize_t)sent;
}

static int stream_close(mongoc_stream_t *driver)
{
  struct stream *stream = (struct stream *)driver;
  int result = stream->fd >= 0 ? close(stream->fd) : 0;
  stream->fd = -1;
  return result;
}

static void stream_destroy(mongoc_stream_t *driver)
{
  stream_close(driver);
  free(driver);
}

static int stream_flush(mongoc_stream_t *driver)
{
  (void)driver;
  return 0;
}

static int stream_setsockopt(mongoc_stream_t *driver, int level, int name, void *value, mongoc_socklen_t length)
{
  return setsockopt(((struct stream *)driver)->fd, level, name, value, length);
}

static bool stream_check_closed(mongoc_stream_t *driver)
{
  struct stream *stream = (struct stream *)driver;
  char byte;
  ssize_t peeked = recv(stream->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return peeked == 0 || (peeked < 0 && !try_again(errno));
}

static ssize_t stream_poll(mongoc_stream_poll_t *streams, size_t count, int32_t timeout_ms)
{
  struct pollfd polled[8];
  if (count > sizeof polled / sizeof *polled) {
    errno = EINVAL;
    return -1;
  }
  for (size_t i = 0; i < count; i++)
    polled[i] = (struct pollfd){.fd = ((struct stream *)streams[i].stream)->fd, .events = (short)streams[i].events};
  ssize_t ready_count = poll(polled, count, timeout_ms);
  for (size_t i = 0; i < count; i++)
    streams[i].revents = ready_count > 0 ? polled[i].revents : 0;
  return ready_count;
}

static bool stream_timed_out(mongoc_stream_t *driver)
{
  return ((struct stream *)driver)->cause == ETIMEDOUT;
}

static bool stream_should_retry(mongoc_stream_t *driver)
{
  return try_again(((struct stream *)driver)->cause);
}

static mongoc_stream_t *stream_new(struct mongo_connection *connection, int fd)
{
  struct stream *stream = calloc(1, sizeof *stream);
  if (!stream) {
    close(fd);
    return NULL;
  }
  stream->driver = (mongoc_stream_t){.type = STREAM_TYPE,
                                     .destroy = stream_destroy,
                                     .failed = stream_destroy,
                                     .close = stream_close,
                                     .flush = stream_flush,
                                     .writev = stream_writev,
                                     .readv = stream_readv,
                                     .setsockopt = stream_setsockopt,
                                     .check_closed = stream_check_closed,
                                     .poll = stream_poll,
                                     .timed_out = stream_timed_out,
                                     .should_retry = stream_should_retry};
  stream->connection = connection;
  stream->fd = fd;
  stream->due_ms = INT64_MAX; /* TLS speaks first; the driver bounds that */
  return &stream->driver;
}

/* ---- connecting ---- */

/* -1: it could not be connected in time. */
static int connected(struct mongo_connection *connection, int family, const struct sockaddr *address, socklen_t length, int64_t until_ms)
{
  int on = 1, cause = 0;
  socklen_t size = sizeof cause;
  struct stream at = {.connection = connection, .fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (at.fd < 0)
    return -1;
  bool ok = connect(at.fd, address, length) == 0 || (errno == EINPROGRESS && ready(&at, POLLOUT, until_ms) &&
                                                     getsockopt(at.fd, SOL_SOCKET, SO_ERROR, &cause, &size) == 0 && cause == 0);
  if (!ok) {
    close(at.fd);
    return -1;
  }
  if (family != AF_UNIX) {
    setsockopt(at.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(at.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  }
  return at.fd;
}

static int connect_unix(struct mongo_connection *connection, const mongoc_host_list_t *host, int64_t until_ms)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(host->host) >= sizeof address.sun_path)
    return -1;
  strcpy(address.sun_path, host->host);
  return connected(connection, AF_UNIX, (const struct sockaddr *)&address, sizeof address, until_ms);
}

static int connect_tcp(struct mongo_connection *connection, const mongoc_host_list_t *host, int64_t until_ms)
{
  struct addrinfo wanted = {.ai_family = host->family, .ai_socktype = SOCK_STREAM}, *found = NULL;
  char port[8];
  int fd = -1;
  snprintf(port, sizeof port, "%u", (unsigned)host->port);
  if (getaddrinfo(host->host, port, &wanted, &found) != 0)
    return -1;
  for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next)
    fd = connected(connection, at->ai_family, at->ai_addr, at->ai_addrlen, until_ms);
  freeaddrinfo(found);
  return fd;
}

#ifdef MONGOC_ENABLE_SSL
static bool wants_tls(const mongoc_uri_t *uri)
{
  const char *mechanism = mongoc_uri_get_auth_mechanism(uri);
  return mongoc_uri_get_tls(uri) || (mechanism && strcmp(mechanism, "MONGODB-X509") == 0);
}

/* What the driver makes of the same options. */
static mongoc_stream_t *with_tls(mongoc_stream_t *base, const mongoc_uri_t *uri, const char *host, int32_t timeout_ms, bson_error_t *error)
{
  bool insecure = mongoc_uri_get_option_as_bool(uri, MONGOC_URI_TLSINSECURE, false);
  mongoc_ssl_opt_t options = {
      .pem_file = mongoc_uri_get_option_as_utf8(uri, MONGOC_URI_TLSCERTIFICATEKEYFILE, NULL),
      .pem_pwd = mongoc_uri_get_option_as_utf8(uri, MONGOC_URI_TLSCERTIFICATEKEYFILEPASSWORD, NULL),
      .ca_file = mongoc_uri_get_option_as_utf8(uri, MONGOC_URI_TLSCAFILE, NULL),
      .weak_cert_validation = insecure || mongoc_uri_get_option_as_bool(uri, MONGOC_URI_TLSALLOWINVALIDCERTIFICATES, false),
      .allow_invalid_hostname = insecure || mongoc_uri_get_option_as_bool(uri, MONGOC_URI_TLSALLOWINVALIDHOSTNAMES, false),
  };
  mongoc_stream_t *tls = mongoc_stream_tls_new_with_hostname(base, host, &options, 1);
  if (!tls) {
    bson_set_error(error, MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_SOCKET, "TLS cannot be set up for %s", host);
    mongoc_stream_destroy(base);
    return NULL;
  }
  if (mongoc_stream_tls_handshake_block(tls, host, timeout_ms, error))
    return tls;
  mongoc_stream_destroy(tls);
  return NULL;
}
#endif

static mongoc_stream_t *stream_without_peer(struct mongo_connection *connection, bson_error_t *error)
{
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  mongoc_stream_t *stream = fd >= 0 ? stream_new(connection, fd) : NULL;
  if (!stream)
    bson_set_error(error, MONGOC_ERROR_STREAM, MONGOC_ERROR_STREAM_CONNECT, "no descriptor, or no memory, for a connection");
  return stream;
}

/*
 * The driver calls it for each connection of the client. Drivers before 1.25 wait for themselves for good where it returns NULL for a
 * server that they have known (CDRIVER-4666). So they get a stream on a socket without another side: every request on it fails.
 */
mongoc_stream_t *connection_initiate(const mongoc_uri_t *uri, const mongoc_host_list_t *host, void *context, bson_error_t *error)
{
  struct mongo_connection *connection = context;
  int64_t timeout_ms = mongo_timeout_ms(connection->mongo), until_ms = now_ms() + timeout_ms;
  int fd = host->family == AF_UNIX ? connect_unix(connection, host, until_ms) : connect_tcp(connection, host, until_ms);
  mongoc_stream_t *stream = fd >= 0 ? stream_new(connection, fd) : NULL;
#ifdef MONGOC_ENABLE_SSL
  if (stream && wants_tls(uri))
    stream = with_tls(stream, uri, host->host, (int32_t)timeout_ms, error);
#endif
  return stream ? stream : stream_without_peer(connection, error);
}
