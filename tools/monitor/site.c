#include "tools/monitor/site.h"
#include "tools/monitor/api.h"
#include "tools/monitor/hosts.h"
#include "tools/monitor/metrics.h"
#include "tools/monitor/page.h"

#include <stdlib.h>

enum {
  CONNECTIONS = 128,
  CONNECTION_BYTES = 32 * 1024, /* a hundred names are 14 KB */
  IDLE_S = 10,
  LIFE_MS = 20000, /* 5 MB through 2 Mbit/s */
  TEXT_FRESH_MS = 1000,
  TEXT_SHARE = 10,
  MINUTES_DEFAULT = 15,
  MINUTES_MAX = TIMELINE_MS / 60000,
};

static const char json_type[] = "application/json";

/* ---- what a request says ---- */

struct request {
  struct api_names names;
  bool too_many;
  bool wrong; /* a value with a NUL, or minutes that are none */
  int64_t minutes;
};

static void take_minutes(struct request *request, const char *value)
{
  char *end;
  long minutes = strtol(value, &end, 10);
  request->wrong |= *value == '\0' || *end != '\0' || minutes < 1 || minutes > MINUTES_MAX;
  request->minutes = minutes;
}

static enum MHD_Result take_argument(void *context, enum MHD_ValueKind kind, const char *key, size_t key_bytes, const char *value,
                                     size_t value_bytes)
{
  struct request *request = context;
  (void)kind, (void)key_bytes;
  if (value == NULL || strlen(value) != value_bytes) {
    request->wrong = true;
    return MHD_NO;
  }
  if (strcmp(key, "minutes") == 0)
    take_minutes(request, value);
  if (strcmp(key, "type") != 0)
    return MHD_YES;
  if (request->names.count == API_TYPES_MAX) {
    request->too_many = true;
    return MHD_NO;
  }
  request->names.names[request->names.count++] = value;
  return MHD_YES;
}

/* NULL: it can be answered. */
static const char *request_read(struct request *request, struct MHD_Connection *connection, int names_max)
{
  *request = (struct request){.minutes = MINUTES_DEFAULT};
  MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, take_argument, request);
  if (request->too_many || request->names.count > names_max)
    return names_max == 1 ? "takes one type=NAME" : "takes at most 100 type=NAME";
  if (request->wrong)
    return "takes type=NAME, and for /api/timeline minutes=1 to 120";
  return request->names.count == 0 ? "takes type=NAME" : NULL;
}

/* ---- texts for all ---- */

typedef char *text_make(struct site *site, int64_t now_ms, size_t *bytes);

static char *make_types(struct site *site, int64_t now_ms, size_t *bytes)
{
  return api_types(site->board, now_ms, bytes);
}

static char *make_metrics(struct site *site, int64_t now_ms, size_t *bytes)
{
  return metrics_of_board(site->board, now_ms, site->started_wall_us, site->stale_ms, bytes);
}

static int64_t board_version(struct board *board)
{
  board_lock(board);
  int64_t version = board->version;
  board_unlock(board);
  return version;
}

/* An answer that is still being sent keeps the text that it began with. */
static void text_renew(struct site *site, struct site_text *text, text_make *make, const char *type)
{
  int64_t now = overview_now_ms(), age = now - text->made_ms, version = board_version(site->board);
  bool fresh = text->version == version && age < TEXT_FRESH_MS;
  size_t bytes = 0;
  if (text->response != NULL && (fresh || age < text->took_ms * TEXT_SHARE))
    return;
  char *made = make(site, now, &bytes);
  struct MHD_Response *response = made != NULL ? MHD_create_response_from_buffer(bytes, made, MHD_RESPMEM_MUST_FREE) : NULL;
  if (response == NULL) {
    free(made);
    return; /* the old one is better than none */
  }
  if (text->response != NULL)
    MHD_destroy_response(text->response);
  *text = (struct site_text){
      .response = port_head(site->port, response, type, NULL), .made_ms = now, .took_ms = overview_now_ms() - now, .version = version};
}

static enum MHD_Result answer_shared(struct MHD_Connection *connection, struct MHD_Response *response)
{
  return response != NULL ? MHD_queue_response(connection, MHD_HTTP_OK, response) : MHD_NO;
}

static enum MHD_Result answer_types(struct site *site, struct MHD_Connection *connection)
{
  text_renew(site, &site->types, make_types, json_type);
  return answer_shared(connection, site->types.response);
}

static enum MHD_Result answer_metrics(struct site *site, struct MHD_Connection *connection)
{
  text_renew(site, &site->metrics, make_metrics, "text/plain; version=0.0.4; charset=utf-8");
  return answer_shared(connection, site->metrics.response);
}

static enum MHD_Result answer_page(struct site *site, struct MHD_Connection *connection)
{
  return answer_shared(connection, site->page);
}

static enum MHD_Result answer_health(struct site *site, struct MHD_Connection *connection)
{
  return port_answer_line(site->port, connection, MHD_HTTP_OK, "ok");
}

/* ---- texts for one ---- */

static enum MHD_Result answer_wrong(struct site *site, struct MHD_Connection *connection, const char *why)
{
  return port_answer_line(site->port, connection, MHD_HTTP_BAD_REQUEST, why);
}

static enum MHD_Result answer_json(struct site *site, struct MHD_Connection *connection, char *text, size_t bytes)
{
  return port_answer_text(site->port, connection, MHD_HTTP_OK, text, bytes, json_type);
}

static enum MHD_Result answer_history(struct site *site, struct MHD_Connection *connection)
{
  struct request request;
  size_t bytes = 0;
  const char *why = request_read(&request, connection, API_TYPES_MAX);
  if (why != NULL)
    return answer_wrong(site, connection, why);
  char *text = api_history(site->board, overview_now_ms(), &request.names, &bytes);
  return answer_json(site, connection, text, bytes);
}

static enum MHD_Result answer_timeline(struct site *site, struct MHD_Connection *connection)
{
  struct request request;
  size_t bytes = 0;
  const char *why = request_read(&request, connection, API_TYPES_MAX);
  if (why != NULL)
    return answer_wrong(site, connection, why);
  char *text = api_timeline(site->board, overview_now_ms(), &request.names, request.minutes, &bytes);
  return answer_json(site, connection, text, bytes);
}

/* Only a valid name is looked for in the queue: that of another kind is as it is shown, and not as it is. */
static enum MHD_Result answer_type(struct site *site, struct MHD_Connection *connection)
{
  static struct first first; /* 22 KB, and one thread */
  struct request request;
  size_t bytes = 0;
  bool known = false, found = false;
  const char *why = request_read(&request, connection, 1);
  if (why != NULL)
    return answer_wrong(site, connection, why);
  const char *type = request.names.names[0];
  if (type_name_valid(type) && board_answers(site->board) && board_has(site->board, type)) {
    enum first_answer answer = firsts_get(site->firsts, type, overview_now_ms(), connection, &first, &known);
    reader_asked(site->reader, answer == FIRST_WAIT);
    if (answer == FIRST_WAIT)
      return MHD_YES;
  }
  char *text = api_type(site->board, type, known ? &first : NULL, &found, &bytes);
  if (!found)
    return port_answer_line(site->port, connection, MHD_HTTP_NOT_FOUND, "there is no such type");
  return answer_json(site, connection, text, bytes);
}

/* ---- paths ---- */

static const struct {
  const char *path;
  enum MHD_Result (*answer)(struct site *site, struct MHD_Connection *connection);
  bool looks; /* somebody looks at what is read */
} paths[] = {
    {"/", answer_page, true},           {"/healthz", answer_health, false},     {"/metrics", answer_metrics, true},
    {"/api/types", answer_types, true}, {"/api/history", answer_history, true}, {"/api/timeline", answer_timeline, true},
    {"/api/type", answer_type, true},
};

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *path)
{
  struct site *site = context;
  const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
  if (!host_allowed(site->host_names, host))
    return port_answer_line(site->port, connection, MHD_HTTP_MISDIRECTED_REQUEST,
                            "this host is not known by the name in the header Host: --host-name NAME makes it so");
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    if (strcmp(path, paths[i].path) != 0)
      continue;
    if (paths[i].looks)
      reader_asked(site->reader, false);
    return paths[i].answer(site, connection);
  }
  return port_answer_line(site->port, connection, MHD_HTTP_NOT_FOUND,
                          "here are /, /metrics, /healthz, /api/types, /api/history, /api/timeline and /api/type");
}

struct port *site_open(struct site *site, int listener)
{
  site->port = port_open(listener, &(struct port_options){.server = "pawl-monitor/" PAWL_VERSION,
                                                          .answer = answer,
                                                          .context = site,
                                                          .connections = CONNECTIONS,
                                                          .request_bytes = CONNECTION_BYTES,
                                                          .idle_s = IDLE_S,
                                                          .life_ms = LIFE_MS,
                                                          .suspends = true});
  if (site->port == NULL)
    return NULL;
  site->firsts->port = site->port;
  site->page = port_head(site->port, MHD_create_response_from_buffer(page_bytes, (void *)page_html, MHD_RESPMEM_PERSISTENT),
                         "text/html; charset=utf-8", page_policy);
  return site->page != NULL ? site->port : NULL;
}
