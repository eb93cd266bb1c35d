#include "worker/reload.h"
#include "lockstore/lease.h"
#include "worker/executor.h"
#include "worker/log.h"

#include <stdlib.h>
#include <sys/stat.h>

/* A static table: --help and the documentation name the same options. */
static const char *const live[] = {
    "lease", "retry", "poll", "linger", "stall", "batch-messages", "batch-bytes", "segment-bytes", "log-level", "log-format",
};

struct reload {
  struct job job; /* first: the job is the reload */
  struct reload_source source;
  void (*notify)(void *context);
  void *context;
  struct executor *executor; /* NULL: nothing was read yet */
  bool reading, again;
  struct config kept; /* what counts now, if it is not the source's */
  bool has_kept;
  /* the thread's, while it reads */
  struct config read;
  enum config_status status;
  struct error error;
};

static void say(enum config_log_level level, const char *event, const char *text)
{
  struct log_subject process = {0};
  log_line(level, &process, event, text);
}

void reload_options(const struct config *config, struct consumer_options *options)
{
  options->lease_ms = config->lease_ms;
  options->retry_ms = config->retry_ms;
  options->poll_ms = config->poll_ms;
  options->linger_ms = config->linger_ms;
  options->stall_ms = config->stall_ms;
  options->segment_bytes = config->segment_bytes;
}

/* ---- reading ---- */

/* A pipe that was read at the start is at its end now, or would never end. */
static bool is_regular(const struct config *config, const char *flag, struct error *error)
{
  const char *path = config_file_name(config, flag);
  struct stat status;
  if (path == NULL || stat(path, &status) != 0 || S_ISREG(status.st_mode))
    return true; /* one that is not there is reported by the reading */
  error_set(error, "--%s: %.200s is no regular file: it cannot be read again", flag, path);
  return false;
}

static void work(struct job *job)
{
  struct reload *reload = (struct reload *)job;
  const struct config *before = reload->source.config;
  reload->read = (struct config){.program = CONFIG_WORKER};
  reload->status = CONFIG_WRONG;
  if (is_regular(before, "config", &reload->error) && is_regular(before, "uri-file", &reload->error))
    reload->status = config_load(&reload->read, CONFIG_WORKER, reload->source.argc, reload->source.argv, &reload->error);
}

struct reload *reload_new(const struct reload_source *source, void (*notify)(void *context), void *context)
{
  struct reload *reload = calloc(1, sizeof *reload);
  if (reload != NULL)
    *reload = (struct reload){.job.work = work, .source = *source, .notify = notify, .context = context};
  return reload;
}

const struct config *reload_config(const struct reload *reload)
{
  return reload->has_kept ? &reload->kept : reload->source.config;
}

bool reload_begin(struct reload *reload)
{
  struct error error;
  if (reload->executor == NULL)
    reload->executor = executor_new(&(struct executor_size){.threads = 1, .threads_most = 1}, reload->notify, reload->context, &error);
  if (reload->executor == NULL) {
    struct error text;
    error_set(&text, "the configuration cannot be read again, and stays as it is: %.800s", error.text);
    say(CONFIG_LOG_ERROR, "reload", text.text);
    return false;
  }
  reload->again = reload->reading;
  if (!reload->reading)
    executor_submit(reload->executor, &reload->job);
  reload->reading = true;
  return true;
}

/* ---- what it means ---- */

struct changes {
  char text[900];
  size_t used;
};

static bool is_live(const char *flag)
{
  for (size_t i = 0; i < sizeof live / sizeof *live; i++)
    if (strcmp(live[i], flag) == 0)
      return true;
  return false;
}

static void change_note(void *context, const char *flag, const char *was, const char *is)
{
  struct changes *changes = context;
  if (!is_live(flag) || changes->used >= sizeof changes->text)
    return;
  changes->used += (size_t)snprintf(changes->text + changes->used, sizeof changes->text - changes->used, "%s%s %s -> %s",
                                    changes->used > 0 ? ", " : "", flag, was, is);
}

static void restart_warn(void *context, const char *flag, const char *was, const char *is)
{
  struct error text;
  bool same = strcmp(was, is) == 0; /* as far as it may be shown */
  (void)context;
  if (is_live(flag))
    return;
  error_set(&text, "%s needs a restart, and stays as it is: %.200s%s%.200s", flag, same ? "it has changed" : was, same ? "" : " -> ",
            same ? "" : is);
  say(CONFIG_LOG_WARN, "reload", text.text);
}

/* The time-outs of requests are the connections', and these were made at the start. */
static void timeouts_warn(const struct reload *reload, const struct config *now)
{
  int64_t ms = lease_majority_ms(reload->source.config->lease_ms);
  struct error text;
  if (now->lease_ms >= reload->source.config->lease_ms || now->lease_ms == reload_config(reload)->lease_ms)
    return;
  error_set(&text, "a request still waits for up to %lld ms, a third of the lease at the start: a restart shortens that, too",
            (long long)ms);
  say(CONFIG_LOG_WARN, "reload", text.text);
}

static enum reload_news refuse(struct reload *reload)
{
  struct error text;
  error_set(&text, "the configuration is wrong, and nothing changes: %.900s", reload->error.text);
  say(CONFIG_LOG_ERROR, "reload", text.text);
  config_free(&reload->read);
  return RELOAD_SAME;
}

static enum reload_news accept(struct reload *reload)
{
  struct changes changes = {.used = 0};
  struct error text;
  config_compare(reload_config(reload), &reload->read, change_note, &changes);
  /* A quieter log begins after these lines, a noisier one before them. */
  if (reload->read.log_level > reload_config(reload)->log_level)
    log_change(reload->read.log_level, reload->read.log_format);
  config_compare(reload->source.config, &reload->read, restart_warn, NULL);
  timeouts_warn(reload, &reload->read);
  error_set(&text, "the configuration was read again: %s", changes.used > 0 ? changes.text : "nothing changes");
  say(CONFIG_LOG_INFO, "reload", text.text);
  log_change(reload->read.log_level, reload->read.log_format);
  if (reload->has_kept)
    config_free(&reload->kept);
  reload->kept = reload->read;
  reload->has_kept = true;
  return changes.used > 0 ? RELOAD_CHANGED : RELOAD_SAME;
}

enum reload_news reload_take(struct reload *reload)
{
  if (reload == NULL || reload->executor == NULL || executor_take(reload->executor) == NULL)
    return RELOAD_NOTHING;
  enum reload_news news = reload->status == CONFIG_RUN ? accept(reload) : refuse(reload);
  reload->reading = false;
  if (reload->again)
    (void)!reload_begin(reload); /* the thread is there */
  return news;
}
