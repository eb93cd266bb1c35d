/*
 * Hides secrets in a URI that may be malformed. It shows only what is known to be harmless: it follows the grammar below as long as it
 * holds, and hides everything from the first text that does not fit.
 *
 *   mongodb://user:***@host:27017,host2/db?name=value&other=***
 */
#include "config/options.h"

#include <strings.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

struct output {
  char *text;
  size_t size, used;
};

static void put(struct output *output, const char *from, size_t length)
{
  for (size_t i = 0; i < length && output->used + 1 < output->size; i++)
    output->text[output->used++] = from[i];
  output->text[output->used] = '\0';
}

static void put_hidden(struct output *output)
{
  put(output, "***", 3);
}

static size_t scheme_length(const char *uri)
{
  static const char *const schemes[] = {"mongodb://", "mongodb+srv://"};
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
    if (strncasecmp(uri, schemes[i], strlen(schemes[i])) == 0)
      return strlen(schemes[i]);
  return 0;
}

/*
 * All text up to the last '@' of the URI may belong to a password that was not percent-encoded. The name before the first ':' is shown if
 * it is plain: an encoded ':' in it might begin the password.
 */
static void put_credentials(struct output *output, const char *from, size_t length)
{
  const char *colon = memchr(from, ':', length);
  size_t name_length = colon ? (size_t)(colon - from) : length;
  if (strspn(from, LETTERS "._-") >= name_length) {
    put(output, from, name_length);
    if (colon)
      put(output, ":***", 4);
  } else {
    put_hidden(output);
  }
  put(output, "@", 1);
}

/* The length that is certainly a list of hosts and ports: a "port" that is not a number may be a password whose '@' is missing. */
static size_t hosts_length(const char *from)
{
  const char *at = from;
  for (;;) {
    if (*at == '[')
      at += 1 + strspn(at + 1, "0123456789abcdefABCDEF:.%");
    at += *at == ']';
    while (*at && (strchr(LETTERS "._-", *at) || strncasecmp(at, "%2f", 3) == 0)) /* %2F: a slash in the path of a Unix socket */
      at++, at += at[-1] == '%' ? 2 : 0;
    if (*at == ':') {
      size_t digits = strspn(at + 1, "0123456789");
      if (digits > 5 || !strchr(",/?", at[1 + digits]))
        return (size_t)(at + 1 - from);
      at += 1 + digits;
    }
    if (*at != ',')
      return (size_t)(at - from);
    at++;
  }
}

static bool option_harmless(const char *name, size_t length)
{
  static const char *const harmless[] = {
      "appName",
      "authMechanism",
      "authSource",
      "compressors",
      "connectTimeoutMS",
      "directConnection",
      "heartbeatFrequencyMS",
      "journal",
      "loadBalanced",
      "localThresholdMS",
      "maxIdleTimeMS",
      "maxPoolSize",
      "minPoolSize",
      "maxStalenessSeconds",
      "readConcernLevel",
      "readPreference",
      "replicaSet",
      "retryReads",
      "retryWrites",
      "serverSelectionTimeoutMS",
      "socketTimeoutMS",
      "ssl",
      "tls",
      "tlsAllowInvalidHostnames",
      "tlsCAFile",
      "tlsCertificateKeyFile",
      "tlsInsecure",
      "tlsAllowInvalidCertificates",
      "w",
      "waitQueueTimeoutMS",
      "wTimeoutMS",
      "zlibCompressionLevel",
  };
  for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
    if (strlen(harmless[i]) == length && strncasecmp(harmless[i], name, length) == 0)
      return true;
  return false;
}

static void put_options(struct output *output, const char *at)
{
  while (*at) {
    size_t length = strcspn(at, "&;"), name = strcspn(at, "=&;");
    bool shown = name < length && option_harmless(at, name) && strspn(at + name + 1, LETTERS "._/,:$+-") >= length - name - 1;
    bool named = name < length && strspn(at, LETTERS) == name;
    put(output, at, shown ? length : named ? name + 1 : 0);
    if (!shown)
      put_hidden(output);
    put(output, at + length, at[length] ? 1 : 0);
    at += length + (at[length] ? 1 : 0);
  }
}

void config_uri_redact(const char *uri, char *text, size_t size)
{
  struct output output = {.text = text, .size = size};
  if (size == 0)
    return;
  text[0] = '\0';
  size_t scheme = scheme_length(uri);
  put(&output, uri, scheme);
  const char *at = uri + scheme, *last = strrchr(at, '@');
  if (last) {
    put_credentials(&output, at, (size_t)(last - at));
    at = last + 1;
  }
  size_t hosts = hosts_length(at);
  put(&output, at, hosts);
  at += hosts;
  if (*at == '/' && (hosts == 0 || at[-1] != ':')) {
    size_t db = 1 + strspn(at + 1, LETTERS "_-");
    put(&output, at, db);
    at += db;
  }
  if (*at == '?') {
    put(&output, at, 1);
    put_options(&output, at + 1);
  } else if (*at) {
    put_hidden(&output);
  }
}

/* Like config_uri_redact, it reads only as long as the grammar holds. */
bool uri_db(const char *uri, char *db, size_t size)
{
  const char *at = uri + scheme_length(uri), *last = memrchr(at, '@', strcspn(at, "?"));
  at = last ? last + 1 : at;
  at += hosts_length(at);
  if (at > uri && at[-1] == ':')
    return false;
  size_t length = *at == '/' ? strspn(at + 1, LETTERS "_-") : 0;
  snprintf(db, size, "%.*s", (int)length, at + (*at == '/'));
  at += *at == '/' ? 1 + length : 0;
  return length < size && (*at == '?' || *at == '\0');
}
