/*
 * libcurl for a mongod 5.0 that was built for Debian 9: the symbol version that it asks for, and no implementation. It fetches by HTTP only
 * for keys of a cloud's and telemetry, which are off; at its start it checks whether libcurl has SSL. (scripts/mongod compiles it.)
 */
#include <stddef.h>

enum { AGE = 3, VERSION_NUMBER = 0x074000, FEATURE_SSL = 4, FAILED_INIT = 2 };

/* The head of curl_version_info_data, and room for the fields that newer callers may read. */
struct version_info {
  int age;
  const char *version;
  unsigned number;
  const char *host;
  int features;
  const char *ssl;
  long ssl_number;
  const char *libz;
  const char *const *protocols;
  const void *later[16];
};

struct version_info *curl_version_info(int age)
{
  static const char *const protocols[] = {"http", "https", NULL};
  static struct version_info info = {AGE, "7.64.0", VERSION_NUMBER, "none", FEATURE_SSL, "none", 0, NULL, protocols, {NULL}};
  (void)age;
  return &info;
}

int curl_global_init(long flags)
{
  (void)flags;
  return 0;
}

void curl_global_cleanup(void)
{
}

void *curl_easy_init(void)
{
  return NULL;
}

void curl_easy_cleanup(void *easy)
{
  (void)easy;
}

int curl_easy_setopt(void *easy, int option, ...)
{
  (void)easy, (void)option;
  return FAILED_INIT;
}

int curl_easy_getinfo(void *easy, int info, ...)
{
  (void)easy, (void)info;
  return FAILED_INIT;
}

int curl_easy_perform(void *easy)
{
  (void)easy;
  return FAILED_INIT;
}

const char *curl_easy_strerror(int code)
{
  (void)code;
  return "there is no libcurl here";
}

void *curl_slist_append(void *list, const char *text)
{
  (void)list, (void)text;
  return NULL;
}

void curl_slist_free_all(void *list)
{
  (void)list;
}
