#include "lockstore/reach.h"
#include "lockstore/document.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* ---- files ---- */

/* 0, an errno, or -1: it can be read, and holds no PEM. */
static int pem_check(const char *path)
{
  char line[256];
  bool found = false;
  errno = 0;
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return errno;
  while (!found && fgets(line, sizeof line, file) != NULL)
    found = strstr(line, "-----BEGIN ") != NULL;
  int failed = ferror(file) ? errno : 0;
  fclose(file);
  return found ? 0 : failed ? failed : -1;
}

bool reach_check_files(const mongoc_uri_t *uri, const char *server, struct error *error)
{
  static const struct {
    const char *option, *shown, *holds;
  } files[] = {{MONGOC_URI_TLSCAFILE, "tlsCAFile", "certificates of the authorities that sign the server's"},
               {MONGOC_URI_TLSCERTIFICATEKEYFILE, "tlsCertificateKeyFile", "this program's certificate and its key"}};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    const char *path = mongoc_uri_get_option_as_utf8(uri, files[i].option, NULL);
    int wrong = path == NULL ? 0 : pem_check(path);
    if (wrong == 0)
      continue;
    error_set(error, "connecting to %.200s: %s of the URI is %.300s: %s; expected a PEM file of %s, readable by this user", server,
              files[i].shown, path, wrong > 0 ? strerror(wrong) : "no PEM is in it", files[i].holds);
    return false;
  }
  return true;
}

/* ---- the set ---- */

struct reach {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  char expected[128]; /* the set's name; empty: none */
  size_t hosts;       /* of the URI */
  size_t heard;       /* answers and failures of hosts */
  bson_t answered;    /* the hosts that have answered, as the names of fields */
  bool matched;       /* one was of the set, once */
  struct error wrong; /* the last one that is something else; empty: none */
  bool standalone;    /* it has no set: perhaps a member in maintenance, whose others will answer later */
};

struct reach *reach_new(const mongoc_uri_t *uri)
{
  struct reach *reach = calloc(1, sizeof *reach);
  pthread_condattr_t monotonic;
  if (reach == NULL)
    return NULL;
  bson_init(&reach->answered);
  pthread_mutex_init(&reach->mutex, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&reach->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  const char *name = mongoc_uri_get_replica_set(uri);
  snprintf(reach->expected, sizeof reach->expected, "%s", name ? name : "");
  for (const mongoc_host_list_t *host = mongoc_uri_get_hosts(uri); host != NULL; host = host->next)
    reach->hosts++;
  return reach;
}

void reach_free(struct reach *reach)
{
  if (reach == NULL)
    return;
  pthread_cond_destroy(&reach->changed);
  pthread_mutex_destroy(&reach->mutex);
  bson_destroy(&reach->answered);
  free(reach);
}

/*
 *   setName is the URI's    it is of the set
 *   setName is another      wrong
 *   isreplicaset            not initiated yet: neither
 *   msg isdbgrid            wrong: mongos
 *   otherwise               wrong: a standalone server
 */
static void judge(struct reach *reach, const char *host, const bson_t *hello)
{
  char set[128], msg[32], found[200] = "a standalone server";
  bool fresh = false;
  bool named = document_text(hello, "setName", set, sizeof set);
  if (named && strcmp(set, reach->expected) == 0) {
    reach->matched = true;
    return;
  }
  if (!named && document_bool(hello, "isreplicaset", &fresh) && fresh)
    return;
  if (named)
    snprintf(found, sizeof found, "a member of the replica set \"%s\"", set);
  else if (document_text(hello, "msg", msg, sizeof msg) && strcmp(msg, "isdbgrid") == 0)
    snprintf(found, sizeof found, "mongos");
  else
    reach->standalone = true;
  error_set(&reach->wrong, "%.200s is %s; expected a member of \"%s\", the replicaSet of the URI", host, found, reach->expected);
  document_make_printable(reach->wrong.text);
}

static void heard(struct reach *reach, const char *host, const bson_t *hello)
{
  pthread_mutex_lock(&reach->mutex);
  reach->heard++;
  if (hello != NULL) {
    bson_iter_t known;
    if (!bson_iter_init_find(&known, &reach->answered, host))
      BSON_APPEND_NULL(&reach->answered, host);
    judge(reach, host, hello);
  }
  pthread_cond_broadcast(&reach->changed);
  pthread_mutex_unlock(&reach->mutex);
}

static void on_answer(const mongoc_apm_server_heartbeat_succeeded_t *event)
{
  heard(mongoc_apm_server_heartbeat_succeeded_get_context(event), mongoc_apm_server_heartbeat_succeeded_get_host(event)->host_and_port,
        mongoc_apm_server_heartbeat_succeeded_get_reply(event));
}

static void on_failure(const mongoc_apm_server_heartbeat_failed_t *event)
{
  heard(mongoc_apm_server_heartbeat_failed_get_context(event), NULL, NULL);
}

void reach_watch(struct reach *reach, mongoc_client_pool_t *pool)
{
  mongoc_apm_callbacks_t *callbacks = mongoc_apm_callbacks_new();
  mongoc_apm_set_server_heartbeat_succeeded_cb(callbacks, on_answer);
  mongoc_apm_set_server_heartbeat_failed_cb(callbacks, on_failure);
  if (reach->expected[0] != '\0')
    mongoc_client_pool_set_apm_callbacks(pool, callbacks, reach);
  mongoc_apm_callbacks_destroy(callbacks);
}

bool reach_wait(struct reach *reach, int64_t ms, struct error *error)
{
  struct timespec until;
  int failed = 0;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += (time_t)(ms / 1000);
  until.tv_nsec += (long)(ms % 1000) * 1000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_mutex_lock(&reach->mutex);
  while (failed == 0 && reach->expected[0] != '\0' && !reach->matched && reach->heard < reach->hosts)
    failed = pthread_cond_timedwait(&reach->changed, &reach->mutex, &until);
  bool waits = reach->standalone && bson_count_keys(&reach->answered) < reach->hosts;
  bool well = reach->matched || waits || reach->wrong.text[0] == '\0';
  if (!well)
    *error = reach->wrong;
  pthread_mutex_unlock(&reach->mutex);
  return well;
}
