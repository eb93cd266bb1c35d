/* pawl-monitor: shows every type of a database, as metrics for Prometheus and as a page. It only reads. */
#include "config/config.h"
#include "config/stop.h"
#include "lockstore/mongo.h"
#include "tools/monitor/hosts.h"
#include "tools/monitor/site.h"
#include "worker/clock.h"
#include "worker/log.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { TIMEOUT_MS = 5000, CONNECTIONS = 1, POLL_MS = 60000, STALE_MS = 15000 };

static int wrong(const char *event, const char *text)
{
  log_say(CONFIG_LOG_ERROR, event, text);
  return EXIT_USAGE;
}

/* All threads block the signals that ask it to stop, and the port's loop reads them. -1: no descriptor. */
static int signals_open(void)
{
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  signal(SIGPIPE, SIG_IGN);
  return sigprocmask(SIG_BLOCK, &stop, NULL) == 0 ? signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
}

/* Runs the port until a signal asks it to stop. */
static void serve(struct port *port, int signals)
{
  struct pollfd ready[] = {{.fd = port_fd(port), .events = POLLIN}, {.fd = signals, .events = POLLIN}};
  do {
    int64_t left = port_timeout_ms(port);
    (void)poll(ready, 2, left < 0 || left > POLL_MS ? POLL_MS : (int)left); /* port_run finds out what there is */
    port_run(port);
  } while (!(ready[1].revents & POLLIN));
  log_line(CONFIG_LOG_INFO, &(struct log_subject){0}, "stop", "asked to stop");
}

static void say_start(const struct board *board, const struct config *config)
{
  struct error text;
  const char *host = config->listen.host;
  bool six = host != NULL && strchr(host, ':') != NULL;
  error_set(&text, "pawl-monitor %s, pid %d, database %s on %.400s, http://%s%s%s:%u/", PAWL_VERSION, (int)getpid(), board->database,
            board->server, six ? "[" : "", host != NULL ? host : "localhost", six ? "]" : "", config->listen.port);
  log_line(CONFIG_LOG_INFO, &(struct log_subject){0}, "start", text.text);
}

/* The tests shorten it. */
static int64_t stale_ms(void)
{
  const char *text = getenv("PAWL_TEST_STALE_MS");
  return text != NULL && atoll(text) > 0 ? atoll(text) : STALE_MS;
}

/* The same. */
static size_t types_max(void)
{
  const char *text = getenv("PAWL_TEST_TYPES_MAX");
  return text != NULL && atoll(text) > 0 ? (size_t)atoll(text) : BOARD_TYPES_MAX;
}

/* Returns when it was asked to stop, or if it cannot start. The threads live as long as the process. */
static int run(const struct config *config)
{
  static struct board board;
  static struct firsts firsts;
  static struct reader reader;
  static struct site site;
  struct error error;
  int signals = signals_open(), listener = port_listen(&config->listen, &error);
  if (listener < 0)
    return wrong("start", error.text);
  struct lockstore_options options = {
      .uri = config->uri, .db = config->db, .timeout_ms = TIMEOUT_MS, .connections_max = CONNECTIONS, .program = "pawl-monitor"};
  struct lockstore *store = lockstore_open(&options, &error);
  if (store == NULL)
    return wrong("start", error.text);
  board_init(&board, mongo_db(lockstore_mongo(store)), mongo_server(lockstore_mongo(store)));
  board.types_max = types_max();
  firsts_init(&firsts);
  reader = (struct reader){.store = store,
                           .board = &board,
                           .firsts = &firsts,
                           .types = {.names = config->types, .count = config->type_count},
                           .interval_ms = config->interval_ms};
  site = (struct site){.board = &board,
                       .firsts = &firsts,
                       .reader = &reader,
                       .host_names = config->host_names,
                       .started_wall_us = clock_wall_us(),
                       .stale_ms = stale_ms()};
  struct port *port = signals >= 0 ? site_open(&site, listener) : NULL;
  if (port == NULL)
    error_set(&error, "cannot answer at --listen: no memory, or no descriptor");
  if (port == NULL || !reader_start(&reader, &error)) {
    log_say(CONFIG_LOG_ERROR, "start", error.text);
    return EXIT_FAILED;
  }
  say_start(&board, config);
  serve(port, signals);
  return EXIT_DONE;
}

int main(int argc, char **argv)
{
  struct config config;
  struct error error;
  int code;
  stop_at_once();
  if (!config_begin(&config, CONFIG_MONITOR, argc, argv, stdout, stderr, &code))
    return code;
  log_init("pawl-monitor", config.log_level, config.log_format);
  code = config.host_names == NULL || hosts_valid(config.host_names, &error) ? run(&config) : wrong("start", error.text);
  stop_now(code);
}
