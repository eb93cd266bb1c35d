/*
 * reload: SIGHUP: reads the configuration again, from the sources that it came from at the start, and says what follows from that.
 *
 * The files are read on a thread of its own, because a FIFO or a network file system may block. Everything else belongs to the loop's
 * thread, which applies the result between two actions. A wrong configuration changes nothing. An option that cannot change while the
 * worker runs keeps its value, and is named in a warning.
 */
#ifndef PAWL_WORKER_RELOAD_H
#define PAWL_WORKER_RELOAD_H

#include "config/config.h"
#include "worker/consumer.h"

struct reload;

/* The command line, and what was made of it; all borrowed for as long as the process lasts. */
struct reload_source {
  const struct config *config;
  int argc;
  char **argv;
};

/* `notify` is called by the thread when there is something to take. NULL: no memory. */
MUST_CHECK struct reload *reload_new(const struct reload_source *source, void (*notify)(void *context), void *context);
/* Begins to read. While it reads already, it reads once more afterwards. False: the thread cannot be had, which is logged. */
MUST_CHECK bool reload_begin(struct reload *reload);
enum reload_news {
  RELOAD_NOTHING, /* at the moment */
  RELOAD_SAME,    /* it was read, and changes nothing; or it is wrong */
  RELOAD_CHANGED, /* reload_config has the new values */
};
/* Takes what was read, and logs it. */
MUST_CHECK enum reload_news reload_take(struct reload *reload);
/* The configuration that counts now; valid until the next RELOAD_CHANGED. Only what reload_options takes, the batches and the log may
 * differ from the one at the start. */
const struct config *reload_config(const struct reload *reload);

/* Those of a consumer's options that can change while it works. */
void reload_options(const struct config *config, struct consumer_options *options);

#endif
