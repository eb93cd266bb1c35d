#include "worker/clock.h"
#include "worker/health.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ASK_LIMIT_MS = 3000, ANSWER_BYTES = 1024 };

/* True: the socket is ready, or broken. False: the time is over. */
static bool wait_for(int fd, short what, int64_t end_ms)
{
  struct pollfd ready = {.fd = fd, .events = what};
  int64_t left;
  while ((left = end_ms - clock_boot_ms()) > 0)
    if (poll(&ready, 1, (int)left) > 0)
      return true;
  errno = ETIMEDOUT;
  return false;
}

static bool connected(int fd, const struct addrinfo *to, int64_t end_ms)
{
  int reason = 0;
  socklen_t size = sizeof reason;
  if (connect(fd, to->ai_addr, to->ai_addrlen) == 0)
    return true;
  if (errno != EINPROGRESS || !wait_for(fd, POLLOUT, end_ms))
    return false;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &reason, &size);
  errno = reason;
  return reason == 0;
}

/* The whole answer, or as much of it as there is room for. False: errno says why. */
static bool asked(int fd, int64_t end_ms, char *answer)
{
  static const char request[] = "GET /healthz HTTP/1.0\r\n\r\n";
  size_t used = 0;
  answer[0] = '\0';
  if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) != sizeof request - 1)
    return false;
  for (;;) {
    if (!wait_for(fd, POLLIN, end_ms))
      return false;
    ssize_t got = recv(fd, answer + used, ANSWER_BYTES - 1 - used, 0);
    if (got == 0 && used == 0)
      errno = ECONNRESET;
    if (got < 0 || (got == 0 && used == 0))
      return false;
    used += (size_t)got;
    answer[used] = '\0';
    if (got == 0 || used == ANSWER_BYTES - 1)
      return true;
  }
}

/* Another program's 200 on that port says nothing about a worker. */
static bool pawls_own(const char *answer)
{
  const char *body = strstr(answer, "\r\n\r\n");
  for (const char *line = strstr(answer, "\r\n"); line != NULL && line != body; line = strstr(line + 2, "\r\n"))
    if (strncasecmp(line + 2, "Server: " HEALTH_SERVER "/", strlen("Server: " HEALTH_SERVER "/")) == 0)
      return body != NULL && strcmp(body + 4, "ok\n") == 0;
  return false;
}

bool health_ask(const struct config_address *address, struct error *error)
{
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found = NULL;
  char port[8], answer[ANSWER_BYTES];
  bool all = address->host == NULL || strcmp(address->host, "0.0.0.0") == 0 || strcmp(address->host, "::") == 0;
  const char *host = all ? "this machine" : address->host;
  int64_t end_ms = clock_boot_ms() + ASK_LIMIT_MS;
  bool answered = false, healthy = false;
  int code = 0;
  snprintf(port, sizeof port, "%u", address->port);
  if (getaddrinfo(all ? NULL : address->host, port, &hints, &found) != 0) /* NULL: the loopback addresses */
    errno = EADDRNOTAVAIL;
  for (const struct addrinfo *to = found; to != NULL && !answered; to = to->ai_next) {
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    answered = fd >= 0 && connected(fd, to, end_ms) && asked(fd, end_ms, answer);
    int reason = errno;
    if (fd >= 0)
      close(fd);
    errno = reason;
  }
  if (!answered)
    error_set(error, "no answer from port %s of %s: %s", port, host, strerror(errno));
  else if (sscanf(answer, "HTTP/1.%*d %d", &code) != 1)
    error_set(error, "port %s of %s does not speak HTTP", port, host);
  else if (code != 200)
    error_set(error, "port %s of %s answers with status %d", port, host, code);
  else if (!pawls_own(answer))
    error_set(error, "port %s of %s is another program's: it answers, but not as pawl-worker does", port, host);
  else
    healthy = true;
  if (found != NULL)
    freeaddrinfo(found);
  return healthy;
}
