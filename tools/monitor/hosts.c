#include "tools/monitor/hosts.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <strings.h>

enum { HOST_BYTES_MAX = 255 };

/* The next of a comma list, without blanks around it. False: there is none. */
static bool next_name(const char **names, const char **name, size_t *length)
{
  if (*names == NULL || **names == '\0')
    return false;
  *name = *names + strspn(*names, " \t");
  *length = strcspn(*name, ",");
  *names = *name + *length + ((*name)[*length] == ',');
  while (*length > 0 && isblank((unsigned char)(*name)[*length - 1]))
    --*length;
  return true;
}

bool hosts_valid(const char *names, struct error *error)
{
  static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";
  const char *name;
  size_t length;
  while (next_name(&names, &name, &length)) {
    bool any = length == 1 && name[0] == '*';
    if (!any && (length == 0 || length > HOST_BYTES_MAX || strspn(name, allowed) < length)) {
      error_set(error, "--host-name: got \"%.*s\": takes host names without a port, such as pawl.example.com, in a comma list; * is any",
                (int)(length < 100 ? length : 100), name);
      return false;
    }
  }
  return true;
}

/* Cuts off the port and the brackets around an IPv6 address. False: this is no host. */
static bool host_cut(const char *header, char host[HOST_BYTES_MAX + 1])
{
  bool bracketed = header[0] == '[';
  size_t length = bracketed ? strcspn(header, "]") - 1 : strcspn(header, ":");
  const char *rest = header + length + (bracketed ? 2 : 0);
  if (length == 0 || length > HOST_BYTES_MAX || (bracketed && header[length + 1] != ']'))
    return false;
  if (*rest != '\0' && (*rest != ':' || strspn(rest + 1, "0123456789") != strlen(rest + 1)))
    return false;
  memcpy(host, header + bracketed, length);
  host[length] = '\0';
  return true;
}

bool host_allowed(const char *names, const char *header)
{
  char host[HOST_BYTES_MAX + 1];
  struct in6_addr address;
  const char *name;
  size_t length;
  if (header == NULL)
    return true;
  if (!host_cut(header, host))
    return false;
  if (header[0] == '[')
    return inet_pton(AF_INET6, host, &address) == 1;
  if (inet_pton(AF_INET, host, &address) == 1 || strcasecmp(host, "localhost") == 0)
    return true;
  while (next_name(&names, &name, &length))
    if ((length == 1 && name[0] == '*') || (length == strlen(host) && strncasecmp(name, host, length) == 0))
      return true;
  return false;
}
