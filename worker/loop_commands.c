/* What an operator asks of a worker that runs: SIGHUP, read the configuration again; SIGUSR1, report. */
#include "worker/loop_private.h"
#include "worker/report.h"

#include <fcntl.h>
#include <unistd.h>

/* ---- the configuration, read again ---- */

static void configure(struct loop *loop)
{
  const struct config *config = reload_config(loop->reload);
  struct consumer_options options;
  struct event event = {.kind = EVENT_CONFIGURE, .options = &options};
  for (size_t i = 0; i < loop->context_count; i++) {
    options = loop->contexts[i]->consumer.core.options;
    reload_options(config, &options);
    performer_batches(&loop->contexts[i]->performer, config->batch_messages, config->batch_bytes);
    loop_dispatch(loop->contexts[i], &event);
  }
}

void loop_take_reload(struct loop *loop)
{
  enum reload_news news = reload_take(loop->reload);
  if (news == RELOAD_CHANGED)
    configure(loop);
  if (news != RELOAD_NOTHING && !loop->stopping)
    loop_types_retry(loop);
  if (news != RELOAD_NOTHING && loop->ready_sent)
    systemd_ready(&loop->systemd, loop_summary(loop));
}

/* ---- signals ---- */

static bool terminal_is_there(void)
{
  int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  return terminal >= 0 && close(terminal) == 0;
}

/* A terminal that is closed sends it, too: a worker that was started there shall not go on unseen. */
void loop_hangup(struct loop *loop)
{
  if (loop->stopping)
    return;
  if (loop->on_terminal && !terminal_is_there()) {
    loop_stop(loop, "the terminal is closed: finishing the batch in hand");
    return;
  }
  if (loop->ready_sent)
    systemd_reloading(&loop->systemd, loop_summary(loop));
  if (!reload_begin(loop->reload) && loop->ready_sent)
    systemd_ready(&loop->systemd, loop_summary(loop));
}

void loop_report(struct loop *loop)
{
  struct consumer_options options;
  struct metrics_view view;
  loop_consumer_options(loop, &options);
  loop_look(loop, &view);
  report_write(&view, &loop->database, &options);
}

void loop_commands_start(struct loop *loop)
{
  loop->on_terminal = terminal_is_there();
}
