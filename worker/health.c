#include "worker/health.h"
#include "worker/port.h"

#include <stdlib.h>

enum {
  CONNECTIONS = 32,
  CONNECTION_BYTES = 8 * 1024,
  IDLE_S = 5,
  LIFE_MS = 10000, /* a client that sends a byte now and then is never idle */
};

struct health {
  struct port *port;
  health_look *look;
  void *context;
};

static enum MHD_Result answer_ready(const struct health *health, struct MHD_Connection *connection, const struct metrics_view *view)
{
  struct error why;
  if (metrics_ready(view, &why))
    return port_answer_line(health->port, connection, MHD_HTTP_OK, "ready");
  return port_answer_line(health->port, connection, MHD_HTTP_SERVICE_UNAVAILABLE, why.text);
}

static enum MHD_Result answer_metrics(const struct health *health, struct MHD_Connection *connection, const struct metrics_view *view)
{
  size_t bytes = 0;
  char *text = metrics_text(view, &bytes);
  return port_answer_text(health->port, connection, MHD_HTTP_OK, text, bytes, "text/plain; version=0.0.4; charset=utf-8");
}

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *path)
{
  struct health *health = context;
  struct metrics_view view = {0};
  if (strcmp(path, "/healthz") == 0)
    return port_answer_line(health->port, connection, MHD_HTTP_OK, "ok");
  health->look(health->context, &view);
  if (strcmp(path, "/readyz") == 0)
    return answer_ready(health, connection, &view);
  if (strcmp(path, "/metrics") == 0)
    return answer_metrics(health, connection, &view);
  return port_answer_line(health->port, connection, MHD_HTTP_NOT_FOUND, "here are /healthz, /readyz and /metrics");
}

int health_listen(const struct config_address *address, struct error *error)
{
  return port_listen(address, error);
}

struct health *health_open(int listener, health_look *look, void *context)
{
  struct health *health = calloc(1, sizeof *health);
  if (health == NULL)
    return NULL;
  *health = (struct health){.look = look, .context = context};
  health->port = port_open(listener, &(struct port_options){.server = HEALTH_SERVER "/" PAWL_VERSION,
                                                            .answer = answer,
                                                            .context = health,
                                                            .connections = CONNECTIONS,
                                                            .request_bytes = CONNECTION_BYTES,
                                                            .idle_s = IDLE_S,
                                                            .life_ms = LIFE_MS});
  if (health->port != NULL)
    return health;
  free(health);
  return NULL;
}

int health_fd(const struct health *health)
{
  return port_fd(health->port);
}

void health_run(struct health *health)
{
  port_run(health->port);
}

int64_t health_timeout_ms(struct health *health)
{
  return port_timeout_ms(health->port);
}
