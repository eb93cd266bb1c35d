#include "tools/dump/follow.h"
#include "tools/dump/messages.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  POLL_MS = 1000,        /* time between two polls without an inotify event */
  PAUSE_MS = 50,         /* minimum time between two polls, so that one poll finds many blocks */
  PAUSE_LEDGER_MS = 200, /* the same with --uri, where each poll asks the ledger, and each write is followed by a commit */
  ASK_POLLS = 10,        /* every Nth poll asks the ledger even if the file has not grown */
};

struct stream {
  struct source source;
  struct selection selection;
  bool over;
  unsigned idle_polls;
};

struct streams {
  struct dump *dump;
  struct stream **all; /* each allocated on its own, because a selection points to its source */
  size_t count;
  int notices; /* inotify; -1: none */
};

enum { END_S = 1 }; /* after a signal: do not wait longer than this, for example for a write to a full pipe */

static void on_alarm(int number)
{
  (void)number;
  _exit(DUMP_FINE);
}

static void on_signal(int number)
{
  (void)number;
  dump_interrupted = 1;
  alarm(END_S);
}

static void signals_prepare(void)
{
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  action.sa_handler = on_alarm;
  sigaction(SIGALRM, &action, NULL);
}

/* Blocks the signals, so that none comes between the test of dump_interrupted and the wait; *before is the mask for the wait. */
static void signals_block(sigset_t *before)
{
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, before);
}

/* ---- streams ---- */

static void watch(struct streams *streams, const char *dir)
{
  if (streams->notices >= 0 &&
      inotify_add_watch(streams->notices, dir, IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE) < 0)
    dump_note(streams->dump, "%s: no notifications of changes (%s): polling once a second", dir, strerror(errno));
}

static bool streams_append(struct streams *streams, struct stream *stream)
{
  struct stream **all = realloc(streams->all, (streams->count + 1) * sizeof *all);
  if (all == NULL)
    return false;
  streams->all = all;
  all[streams->count++] = stream;
  return true;
}

/* Opens the FILE or the type. False: failed; the error is printed and recorded. */
static bool stream_add(struct streams *streams, const char *name, bool single)
{
  struct dump *dump = streams->dump;
  struct error error;
  struct stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL || !streams_append(streams, stream)) {
    free(stream);
    dump_say("%s: no memory", name);
    dump_note_exit(dump, DUMP_IO);
    return false;
  }
  enum read_status status =
      single ? source_open_file(&stream->source, dump, name, &error) : source_open_type(&stream->source, dump, name, &error);
  if (status == READ_DAMAGED)
    source_say_damage(&stream->source, &error);
  dump_note_status(dump, status, &error);
  stream->over = status != READ_OK && (status != READ_DAMAGED || !dump->config->keep_going);
  if (!stream->over || status == READ_DAMAGED)
    selection_init(&stream->selection, dump, &stream->source);
  else
    stream->selection.source = NULL;
  if (!stream->over) {
    source_note_unexpected(&stream->source, dump);
    watch(streams, stream->source.dir);
  }
  return !stream->over;
}

static bool streams_know(const struct streams *streams, const char *type)
{
  for (size_t i = 0; i < streams->count; i++)
    if (strcmp(streams->all[i]->source.type, type) == 0)
      return true;
  return false;
}

/* Adds all types in the directory, including those that appear later. */
static bool streams_add_types(struct streams *streams)
{
  struct dump *dump = streams->dump;
  char(*types)[TYPE_BYTES_MAX + 1] = NULL;
  size_t count = 0;
  struct error error;
  bool added = true;
  enum read_status status = chain_list_types(dump->config->dir, &types, &count, &error);
  dump_note_status(dump, status, &error);
  for (size_t i = 0; status == READ_OK && added && i < count; i++)
    added = streams_know(streams, types[i]) || stream_add(streams, types[i], false);
  free(types);
  return status == READ_OK && added;
}

static bool streams_open(struct streams *streams)
{
  const struct config *config = streams->dump->config;
  bool opened = true;
  for (int i = 0; opened && i < config->argument_count; i++)
    opened = stream_add(streams, config->arguments[i], true);
  if (config->argument_count > 0)
    return opened;
  for (size_t i = 0; opened && i < config->type_count; i++)
    opened = stream_add(streams, config->types[i], false);
  if (config->type_count == 0) {
    watch(streams, config->dir);
    opened = streams_add_types(streams);
  }
  return opened;
}

static void streams_close(struct streams *streams)
{
  for (size_t i = 0; i < streams->count; i++) {
    if (streams->all[i]->selection.source != NULL)
      selection_deinit(&streams->all[i]->selection);
    source_close(&streams->all[i]->source);
    free(streams->all[i]);
  }
  free(streams->all);
  if (streams->notices >= 0)
    close(streams->notices);
}

/* ---- reading ---- */

/* False: stop following altogether. */
static bool stream_advance(struct streams *streams, struct stream *stream)
{
  enum selection_status status = selection_advance(&stream->selection);
  const struct source *source = &stream->source;
  if (status == SELECTION_STOPPED)
    return false;
  stream->over = status == SELECTION_DONE;
  if (status == SELECTION_END && source->over && source->chain.segments[0].has_end) {
    dump_note(streams->dump, "%s ends here; %s follows it (--dir follows the type)", source_name(source), source->successor);
    stream->over = true;
  }
  return true;
}

/* Without an inotify event ask the ledger only if the file is longer than its committed end, or from time to time. */
static bool is_worth_asking(struct stream *stream, bool noticed)
{
  struct error ignored;
  struct reader *reader = &stream->selection.walk.at.reader;
  int64_t size = 0;
  if (noticed || ++stream->idle_polls % ASK_POLLS == 0 || !stream->selection.walk.at.open)
    return true;
  return file_size(&reader->file, &size, &ignored) != FILE_OK || size > reader->end.length;
}

/* What happened to the file that is being read, in words; NULL: it is in its place, and whole. */
static const char *file_trouble(const struct stream *stream, struct stat *open_one)
{
  const struct walk *walk = &stream->selection.walk;
  const struct reader *reader = &walk->at.reader;
  char path[4096 + FILE_NAME_SIZE];
  struct stat named_one;
  bool newest = walk->at.open && walk->at.index + 1 == stream->source.chain.count; /* older segments may be moved away */
  if (!newest || fstat(reader->file.fd, open_one) != 0)
    return NULL;
  snprintf(path, sizeof path, "%s/%s", stream->source.dir, walk_segment(walk)->name);
  if (stat(path, &named_one) != 0)
    return errno == ENOENT ? "it was removed or renamed" : NULL; /* a network file system may be unavailable for a while */
  if (named_one.st_dev != open_one->st_dev || named_one.st_ino != open_one->st_ino)
    return "another file was put in its place";
  bool known = memcmp(stream->selection.confirmed_id, reader->header.uuid, sizeof stream->selection.confirmed_id) == 0;
  return known && open_one->st_size < stream->selection.confirmed_end ? "it was cut, and committed documents are gone" : NULL;
}

/* False: nothing more can come from this file; this was printed. */
static bool stream_in_place(struct streams *streams, struct stream *stream)
{
  struct stat status;
  const char *trouble = file_trouble(stream, &status);
  if (trouble == NULL)
    return true;
  bool cut = status.st_nlink > 0 && status.st_size < stream->selection.confirmed_end;
  selection_report_held(&stream->selection);
  dump_say("%s: %s while it was followed (%lld bytes, the first %" PRId64 " of them read as committed): it is not followed any more",
           walk_segment_name(&stream->selection.walk), trouble, (long long)status.st_size, stream->selection.confirmed_end);
  dump_note_exit(streams->dump, cut ? DUMP_DAMAGED : DUMP_IO);
  stream->over = true;
  return false;
}

/* Checks whether there is more. False: stop following altogether. */
static bool stream_poll(struct streams *streams, struct stream *stream, bool noticed)
{
  struct error error;
  bool changed = false;
  if (!stream_in_place(streams, stream))
    return true;
  if (streams->dump->config->uri_given && !is_worth_asking(stream, noticed))
    return true;
  enum read_status status = source_refresh(&stream->source, streams->dump, &changed, &error);
  if (dump_interrupted)
    return false;
  if (status == READ_DAMAGED)
    source_say_damage(&stream->source, &error);
  dump_note_status(streams->dump, status, &error);
  if (status != READ_OK)
    return false;
  selection_rewind(&stream->selection, changed);
  return true;
}

static bool follows_all_types(const struct dump *dump)
{
  return dump->config->argument_count == 0 && dump->config->type_count == 0;
}

enum wait_result { WAIT_NONE, WAIT_TIMEOUT, WAIT_NOTICED };

static bool streams_advance(struct streams *streams, enum wait_result waited)
{
  struct dump *dump = streams->dump;
  size_t open = 0;
  bool held = false; /* messages that --limit has counted and that are not yet known to be committed */
  for (size_t i = 0; i < streams->count; i++) {
    struct stream *stream = streams->all[i];
    if (stream->over)
      continue;
    if (waited != WAIT_NONE && !stream_poll(streams, stream, waited == WAIT_NOTICED))
      return false;
    if (stream->over)
      continue;
    if (!stream_advance(streams, stream))
      return false;
    if (waited == WAIT_TIMEOUT && !stream->over)
      selection_report_held(&stream->selection);
    open += !stream->over;
    held = held || (!stream->over && stream->selection.holds && stream->selection.picked.messages > 0);
  }
  fflush(dump->out);
  return dump_goes_on(dump) && (open > 0 || follows_all_types(dump)) && (dump->remaining > 0 || held);
}

/* ---- waiting ---- */

static bool notices_drop(int notices)
{
  char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
  bool any = false;
  while (notices >= 0 && read(notices, buffer, sizeof buffer) > 0)
    any = true;
  return any;
}

/* Waits until something changes, or for a second. WAIT_NONE: a signal came, or no process reads the output. */
static enum wait_result wait_for_growth(const struct streams *streams)
{
  struct pollfd polls[] = {{.fd = STDOUT_FILENO, .events = 0}, {.fd = streams->notices, .events = POLLIN}};
  struct timespec second = {.tv_sec = POLL_MS / 1000}, pause = {.tv_nsec = PAUSE_MS * 1000000L};
  sigset_t before;
  if (streams->dump->config->uri_given)
    pause.tv_nsec = PAUSE_LEDGER_MS * 1000000L;
  signals_block(&before);
  if (!dump_interrupted && ppoll(polls, 1, &pause, &before) == 0)
    ppoll(polls, 2, &second, &before);
  sigprocmask(SIG_SETMASK, &before, NULL);
  bool noticed = notices_drop(streams->notices);
  if (dump_interrupted || (polls[0].revents & (POLLERR | POLLNVAL)) != 0)
    return WAIT_NONE;
  return noticed ? WAIT_NOTICED : WAIT_TIMEOUT;
}

void follow(struct dump *dump)
{
  struct streams streams = {.dump = dump, .notices = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
  enum wait_result waited = WAIT_NONE;
  signals_prepare();
  bool going = streams_open(&streams) && streams_advance(&streams, WAIT_NONE);
  while (going && (waited = wait_for_growth(&streams)) != WAIT_NONE)
    going = (!follows_all_types(dump) || streams_add_types(&streams)) && streams_advance(&streams, waited);
  streams_close(&streams);
}
