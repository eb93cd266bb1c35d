/*
 * report: what pawl-enqueue tells on stderr: bad lines, what was not tried or is unknown, the summary, and the texts for a signal
 * handler, which are made before they are needed. Also the program's state, of which this tells. Private to pawl-enqueue's main.
 */
#ifndef PAWL_TOOLS_ENQUEUE_REPORT_H
#define PAWL_TOOLS_ENQUEUE_REPORT_H

#include "config/config.h"
#include "tools/enqueue/destination.h"
#include "tools/enqueue/id.h"
#include "tools/enqueue/input.h"
#include "tools/enqueue/insert.h"
#include "tools/enqueue/progress.h"

#include <signal.h>

enum { PLACE_SIZE = 500 };

struct enqueue {
  struct config config;
  struct mongo *mongo;
  mongoc_client_t *client;
  struct id_source ids;
  struct batch batch;
  struct destinations destinations;
  struct progress progress;
  sigset_t unblocked; /* mask for the wait for input; a signal ends this wait */
  enum input_form form;
  size_t bundle_max;                  /* messages; 0: no bundles */
  int64_t acknowledged, bad, unknown; /* messages */
  int64_t documents;                  /* documents that hold the acknowledged messages */
  int64_t began_ms;                   /* when the current batch got its first message */
  int64_t busy_since_ms;              /* since when the server cannot take the next document; 0: it can */
  int64_t bytes;                      /* of the files that are finished */
  struct insert_woken woken;
  bool stopped; /* stop reading and inserting */
  bool failed;  /* an error other than bad and unknown messages */
  int code;     /* why nothing can be inserted any more; 0: inserts are possible */
};

__attribute__((format(printf, 4, 5))) void report(struct enqueue *enqueue, enum config_log_level level, const char *event,
                                                  const char *format, ...);
void report_bad(struct enqueue *enqueue, size_t messages, const char *text);
void report_place(const struct enqueue *enqueue, struct place place, char *text);
void report_unknown(struct enqueue *enqueue, size_t first, size_t count, const char *why);
/* What follows the batch was not even read. */
void report_not_tried(struct enqueue *enqueue, size_t first);
void report_summary(struct enqueue *enqueue, bool failed);
/* Prepares the texts for a late answer to the insert of `count` from `first` on, and for a second signal before the answer. */
void report_draft_insert(struct enqueue *enqueue, size_t first, size_t count);
/* Prepares the text for the time when no request is under way. */
void report_draft_idle(struct enqueue *enqueue);
/* Prepares the text for the time until MongoDB has answered. */
void report_draft_connect(struct enqueue *enqueue);

#endif
