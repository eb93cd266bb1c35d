#include "tools/enqueue/report.h"
#include "tools/enqueue/stop.h"
#include "tools/patience.h"
#include "worker/log.h"

enum { COUNT_SIZE = 80 };

void report(struct enqueue *enqueue, enum config_log_level level, const char *event, const char *format, ...)
{
  char text[2048];
  if (level > enqueue->config.log_level)
    return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!log_keeps())
    progress_clear(&enqueue->progress);
  log_say(level, event, text);
}

void report_bad(struct enqueue *enqueue, size_t messages, const char *text)
{
  enqueue->bad += (int64_t)messages;
  report(enqueue, CONFIG_LOG_ERROR, "bad", "%s", text);
  if (enqueue->config.strict)
    enqueue->stopped = true;
}

void report_place(const struct enqueue *enqueue, struct place place, char *text)
{
  input_place(place.name, enqueue->form, place.number, place.offset, text, PLACE_SIZE);
}

/* "7 messages", "7 messages in 2 documents". */
static void count_text(const struct enqueue *enqueue, int64_t messages, int64_t documents, char text[COUNT_SIZE])
{
  int length = snprintf(text, COUNT_SIZE, "%lld message%s", (long long)messages, plural(messages));
  if (enqueue->bundle_max > 0)
    snprintf(text + length, COUNT_SIZE - (size_t)length, " in %lld document%s", (long long)documents, plural(documents));
}

/* The _id as people write it; the caller frees it. */
static char *id_text(const struct enqueue *enqueue, size_t i)
{
  bson_t document, only = BSON_INITIALIZER;
  bson_iter_t iter;
  batch_document(&enqueue->batch, i, &document);
  if (bson_iter_init_find(&iter, &document, "_id"))
    bson_append_iter(&only, "_id", 3, &iter);
  char *text = bson_as_relaxed_extended_json(&only, NULL);
  bson_destroy(&only);
  return text;
}

void report_unknown(struct enqueue *enqueue, size_t first, size_t count, const char *why)
{
  char from[PLACE_SIZE], to[PLACE_SIZE], counted[COUNT_SIZE];
  char *first_id = id_text(enqueue, first), *last_id = id_text(enqueue, first + count - 1);
  report_place(enqueue, enqueue->batch.documents[first].first, from);
  report_place(enqueue, enqueue->batch.documents[first + count - 1].last, to);
  size_t messages = batch_messages(&enqueue->batch, first, count);
  count_text(enqueue, (int64_t)messages, (int64_t)count, counted);
  report(enqueue, CONFIG_LOG_ERROR, "unknown", "it is not known whether %s %s in the queue: %s to %s, %s to %s: %s", counted,
         messages == 1 ? "is" : "are", from, to, first_id ? first_id : "?", last_id ? last_id : "?", why);
  bson_free(first_id);
  bson_free(last_id);
}

void report_not_tried(struct enqueue *enqueue, size_t first)
{
  char place[PLACE_SIZE];
  const struct batch *batch = &enqueue->batch;
  bool last = first >= batch->count;
  report_place(enqueue, last ? batch->documents[batch->count - 1].last : batch->documents[first].first, place);
  report(enqueue, CONFIG_LOG_ERROR, "not-tried", last ? "not tried: all after %s" : "not tried: %s and all after it", place);
}

void report_summary(struct enqueue *enqueue, bool failed)
{
  char bad[64] = "", unknown[64] = "", counted[COUNT_SIZE];
  const char *what = enqueue->form == INPUT_BSON ? "document" : "line";
  if (enqueue->bad)
    snprintf(bad, sizeof bad, ", %lld bad %s%s", (long long)enqueue->bad, what, plural(enqueue->bad));
  if (enqueue->unknown)
    snprintf(unknown, sizeof unknown, ", %lld unknown", (long long)enqueue->unknown);
  count_text(enqueue, enqueue->acknowledged, enqueue->documents, counted);
  report(enqueue, failed ? CONFIG_LOG_ERROR : CONFIG_LOG_INFO, "done", "enqueued %s%s%s", counted, bad, unknown);
}

/* ---- texts prepared for later ---- */

void report_draft_insert(struct enqueue *enqueue, size_t first, size_t count)
{
  char words[STOP_WORDS_SIZE], counted[COUNT_SIZE];
  const struct batch *batch = &enqueue->batch;
  int64_t messages = (int64_t)batch_messages(batch, first, count);
  log_keep(words, sizeof words);
  report_unknown(enqueue, first, count, "a second signal came before the answer");
  report_not_tried(enqueue, first + count);
  enqueue->unknown += messages;
  report_summary(enqueue, true);
  enqueue->unknown -= messages;
  log_keep(NULL, 0);
  stop_words(words);
  count_text(enqueue, messages, (int64_t)count, counted);
  log_keep(words, sizeof words);
  report(enqueue, CONFIG_LOG_INFO, "waiting", "waiting for %s to acknowledge %s", mongo_server(enqueue->mongo), counted);
  log_keep(NULL, 0);
  patience_begin(words);
}

void report_draft_idle(struct enqueue *enqueue)
{
  char words[STOP_WORDS_SIZE];
  patience_end();
  log_keep(words, sizeof words);
  report_summary(enqueue, true);
  log_keep(NULL, 0);
  stop_words(words);
}

void report_draft_connect(struct enqueue *enqueue)
{
  char words[STOP_WORDS_SIZE];
  log_keep(words, sizeof words);
  report(enqueue, CONFIG_LOG_ERROR, "stopped", "stopped by a signal before MongoDB answered; nothing was enqueued");
  log_keep(NULL, 0);
  if (!stop_catch(words, &enqueue->unblocked))
    report(enqueue, CONFIG_LOG_WARN, "start", "no thread for signals: a signal is noticed when MongoDB has answered");
}
