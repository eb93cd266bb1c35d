#include "config/options.h"

#include <ctype.h>
#include <stddef.h>

#define BIT(program) (1u << (program))
#define WORKER BIT(CONFIG_WORKER)
#define ENQUEUE BIT(CONFIG_ENQUEUE)
#define STATUS BIT(CONFIG_STATUS)
#define SETUP BIT(CONFIG_SETUP)
#define DUMP BIT(CONFIG_DUMP)
#define LOCK BIT(CONFIG_LOCK)
#define MONITOR BIT(CONFIG_MONITOR)
#define ALL (WORKER | ENQUEUE | STATUS | SETUP | DUMP | LOCK | MONITOR)
#define FIELD(name) .offset = offsetof(struct config, name)

enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, KIB = 1024, MIB = 1024 * KIB };

/* clang-format off */
const struct option_row config_options[] = {
  {"MongoDB", "uri", 0, OPTION_URI, ALL & ~DUMP, "mongodb://127.0.0.1:27017", .placeholder = "URI", FIELD(uri),
   .help = "standard connection string: TLS, SCRAM, replica set"},
  {"MongoDB", "uri", 0, OPTION_URI, DUMP, .placeholder = "URI", FIELD(uri),
   .help = "ask the ledger there for the committed end; default: do not ask, and decide from the files alone"},
  {"MongoDB", "uri-file", 0, OPTION_FILE, ALL, .placeholder = "FILE",
   .help = "read the connection string from FILE, so that no password is on a command line"},
  {"MongoDB", "db", 0, OPTION_DB, ALL, .min = 1, .max = 63, .placeholder = "NAME", FIELD(db),
   .help = "database; default: the one in the URI, else pawl"},
  {"MongoDB", "replica-set", 0, OPTION_TEXT, SETUP, .placeholder = "NAME", FIELD(replica_set),
   .help = "initiate a replica set under this name, of the nodes of --member; default: do not initiate"},
  {"MongoDB", "member", 0, OPTION_TEXT, SETUP, .placeholder = "HOST:PORT", FIELD(member),
   .help = "address under which clients and the other members reach a node; a comma list for several; default: the URI's"},

  {"Messages", "type", 0, OPTION_TYPES, WORKER, .placeholder = "TYPE", FIELD(types),
   .help = "serve this type; at least one; may be repeated, or a comma list. With a *, such as 'orders.*': all types that match, also "
           "those to come"},
  {"Messages", "except", 0, OPTION_TYPES, WORKER, .placeholder = "PATTERN", FIELD(excepts),
   .help = "leave out the types that match, of those that a --type with a * finds; may be repeated, or a comma list"},
  {"Messages", "types-max", 0, OPTION_COUNT, WORKER, NULL, 1, 100000, .placeholder = "N", FIELD(types_max),
   .help = "hold at most N types at the same time, and serve the others in turn; default: no limit for types that are named, and 256 for "
           "those that a * finds"},
  {"Messages", "type", 0, OPTION_TYPES, ENQUEUE, .placeholder = "TYPE", FIELD(types),
   .help = "type of the messages; with ndjson and bson it is added to a document without a type, and a document of another type is a bad line "
           "(repeated: the allowed types)"},
  {"Messages", "type", 0, OPTION_TYPES, STATUS | DUMP | MONITOR, .placeholder = "TYPE", FIELD(types),
   .help = "only this type; may be repeated, or a comma list; default: all"},
  {"Queue", "type", 0, OPTION_TYPES, SETUP, .placeholder = "TYPE", FIELD(types),
   .help = "the type for --own-collection and --shared-collection; may be repeated, or a comma list"},
  {"Messages", "from", 0, OPTION_ENUM, ENQUEUE, "lines", .choices = {"lines", "ndjson", "bson"}, .placeholder = "FORM", FIELD(from),
   .help = "lines: each line becomes a message's payload; ndjson: Extended JSON, one document a line; bson: documents back to back"},
  {"Messages", "strict", 0, OPTION_BOOL, ENQUEUE, .text = "false", FIELD(strict), .help = "stop at the first bad line"},
  {"Messages", "batch-messages", 0, OPTION_COUNT, WORKER, "10000", 1, 1000000, .placeholder = "N", FIELD(batch_messages),
   .help = "maximum number of documents in a block"},
  {"Messages", "batch-messages", 0, OPTION_COUNT, ENQUEUE, "10000", 1, 1000000, .placeholder = "N", FIELD(batch_messages),
   .help = "maximum number of documents in one insert; MongoDB takes at most 100000"},
  {"Messages", "bundle", 0, OPTION_COUNT, ENQUEUE, "0", 0, 100000, "auto", CONFIG_BUNDLE_AUTO, .placeholder = "N|auto", FIELD(bundle),
   .help = "put up to N messages, and 1 MiB, into one document {_id, type, batch}, which is faster; auto: what has arrived when the "
           "previous insert is done, up to 1000; 0: each message is a document of its own"},
  {"Messages", "batch-bytes", 0, OPTION_BYTES, WORKER, "8MiB", KIB, 64 * MIB, .placeholder = "SIZE", FIELD(batch_bytes),
   .help = "maximum number of bytes in a block; one document always fits"},
  {"Messages", "memory", 0, OPTION_BYTES, WORKER, "96MiB", MIB, 1024ll * 1024 * MIB, .placeholder = "SIZE", FIELD(memory_bytes),
   .help = "memory for the batches and replies of all types together; one document of a type always fits"},

  {"Lease", "lease", 0, OPTION_DURATION, WORKER | LOCK, "30s", SECOND, HOUR, .placeholder = "TIME", FIELD(lease_ms),
   .help = "how long a lock is valid without renewal; the default is longer than an election"},
  {"Lease", "retry", 0, OPTION_DURATION, WORKER | LOCK, "100ms", 1, HOUR, .placeholder = "TIME", FIELD(retry_ms),
   .help = "how often a waiting process polls the lock"},
  {"Lease", "timeout", 0, OPTION_DURATION, LOCK, "none", 0, 8760ll * HOUR, "none", -1, .placeholder = "TIME", FIELD(timeout_ms),
   .help = "how long to wait for the lock, and then exit 69; 0s: do not wait"},
  {"Lease", "nonblock", 0, OPTION_BOOL, LOCK, .text = "false", FIELD(nonblock), .help = "do not wait for the lock: short for --timeout 0s"},
  {"Lease", "slots", 0, OPTION_COUNT, LOCK, "1", 1, 1000, .placeholder = "N", FIELD(slots),
   .help = "up to N processes may hold the lock at the same time; all must give the same N"},
  {"Lease", "document", 0, OPTION_TEXT, LOCK, .placeholder = "DOCUMENT", FIELD(document),
   .help = "lock a document of a collection of yours, in place, instead of a NAME: COLLECTION/ID. An ID of 24 hexadecimal digits is an ObjectId, one of "
           "decimal digits a number, any other one a string. COLLECTION/{QUERY}: a document that matches, in Extended JSON"},
  {"Lease", "sort", 0, OPTION_TEXT, LOCK, .placeholder = "JSON", FIELD(sort),
   .help = "with --document COLLECTION/{QUERY}: of those that match the first by this order, such as {\"at\": 1}"},
  {"Lease", "field", 0, OPTION_TEXT, LOCK, .placeholder = "NAME", FIELD(field),
   .help = "with --document: the field that is the lock, instead of pawl; its token stays when the lock is released"},
  {"Lease", "hold", 0, OPTION_BOOL, LOCK, .text = "false", FIELD(hold),
   .help = "run no command: print a line of JSON when the lock is held, and hold it until standard input ends"},
  {"Lease", "conflict-exit", 0, OPTION_COUNT, LOCK, "69", 0, 255, .placeholder = "N", FIELD(conflict_exit),
   .help = "exit with N if others held the lock for all of the time to wait"},
  {"Lease", "lost-exit", 0, OPTION_COUNT, LOCK, "1", 0, 255, .placeholder = "N", FIELD(lost_exit),
   .help = "exit with N if the lock was lost before the command ended"},
  {"Locks", "list", 0, OPTION_BOOL, LOCK, .text = "false", FIELD(list), .help = "show every lock that is held, and who waits"},
  {"Locks", "show", 0, OPTION_TEXT, LOCK, .placeholder = "NAME", FIELD(show),
   .help = "show who holds the lock NAME, since when, and who waits; exit 1 if no process holds it"},
  {"Locks", "json", 0, OPTION_BOOL, LOCK, .text = "false", FIELD(json), .help = "with --list and --show: one JSON document a line"},
  {"Locks", "break", 0, OPTION_TEXT, LOCK, .placeholder = "NAME", FIELD(break_name),
   .help = "end the hold of another process, which learns the --reason; its command is ended"},
  {"Locks", "reason", 0, OPTION_TEXT, LOCK, .placeholder = "TEXT", FIELD(reason), .help = "why --break is right: the holder logs it"},
  {"Locks", "forget", 0, OPTION_TEXT, LOCK, .placeholder = "NAME", FIELD(forget),
   .help = "remove what the database keeps of the lock NAME: only if no process holds it or waits for it, and it is not a type with "
           "files. Its epochs do not go back"},
  {"Locks", "prune", 0, OPTION_BOOL, LOCK, .text = "false", FIELD(prune), .help = "do as --forget does for every lock that no process uses"},
  {"Lease", "poll", 0, OPTION_DURATION, WORKER, "100ms", 1, HOUR, .placeholder = "TIME", FIELD(poll_ms),
   .help = "how often an idle worker polls the queue"},
  {"Lease", "linger", 0, OPTION_DURATION, WORKER, "5s", 0, 24 * HOUR, .placeholder = "TIME", FIELD(linger_ms),
   .help = "how long a holder stays on an empty queue before it releases; with --exit-when-empty, unless given, 0s"},
  {"Lease", "stall", 0, OPTION_DURATION, WORKER, "60s", SECOND, 24 * HOUR, .placeholder = "TIME", FIELD(stall_ms),
   .help = "how long one action may run before the worker stops renewing the lease; never less than 3 leases"},

  {"Storage", "dir", 0, OPTION_TEXT, WORKER, ".", .placeholder = "DIR", FIELD(dir), .help = "directory of the storage files"},
  {"Storage", "dir", 0, OPTION_TEXT, SETUP, ".", .placeholder = "DIR", FIELD(dir), .help = "directory of the files to adopt"},
  {"Storage", "adopt", 0, OPTION_TEXT, SETUP, .placeholder = "TYPE", FIELD(adopt),
   .help = "make a new ledger for the files of TYPE in DIR, whose ledger is lost or does not agree with them; shows what it found, and asks "
           "first"},
  {"Queue", "own-collection", 0, OPTION_BOOL, SETUP, .text = "false", FIELD(own_collection),
   .help = "make the collection messages.TYPE for each --type, and let workers and producers use it from now on; with many messages this "
           "saves the server work"},
  {"Queue", "shared-collection", 0, OPTION_BOOL, SETUP, .text = "false", FIELD(shared_collection),
   .help = "the reverse, only while messages.TYPE is empty: the type uses messages alone again"},
  {"Moving", "carry", 0, OPTION_TEXT, SETUP, .placeholder = "TYPE", FIELD(carry),
   .help = "move the ledger of TYPE, which is paused and drained, to the database of --to-uri, and mark it here as moved; it is paused there, too; "
           "shows what it found, and asks first"},
  {"Moving", "to-uri", 0, OPTION_URI, SETUP, .placeholder = "URI", FIELD(to_uri),
   .help = "with --carry: connection string of the replica set that serves the type from now on"},
  {"Moving", "to-uri-file", 0, OPTION_FILE, SETUP, .placeholder = "FILE",
   .help = "read the connection string of --to-uri from FILE, so that no password is on a command line"},
  {"Moving", "to-db", 0, OPTION_DB, SETUP, .min = 1, .max = 63, .placeholder = "NAME", FIELD(to_db),
   .help = "with --carry: database there; to be given where --db is; default: the one in its URI, else pawl"},
  {"Queue", "list-refused", 0, OPTION_BOOL, SETUP, .text = "false", FIELD(list_refused),
   .help = "list the documents that no worker can take, each with the reason, and those that were set aside; changes nothing"},
  {"Queue", "set-aside", 0, OPTION_TEXT, SETUP, .placeholder = "TYPE", FIELD(set_aside),
   .help = "move the documents of TYPE that no worker can take to the collection refused; @untyped: those without a usable type; a comma "
           "list for several; shows what it found, and asks first"},
  {"Queue", "put-back", 0, OPTION_TEXT, SETUP, .placeholder = "TYPE", FIELD(put_back),
   .help = "move what was set aside back to the queue; asks first"},
  {"Storage", "yes", 0, OPTION_BOOL, SETUP, .text = "false", FIELD(yes),
   .help = "do not ask; with --own-collection: documents that are there already are messages of the type"},
  {"Storage", "dir", 0, OPTION_TEXT, DUMP, .placeholder = "DIR", FIELD(dir),
   .help = "read the whole chains of segments in DIR instead of FILEs"},
  {"Storage", "segment-bytes", 0, OPTION_BYTES, WORKER, "never", 64 * KIB, INT64_MAX, "never", .placeholder = "SIZE",
   FIELD(segment_bytes), .help = "begin a new segment when the file is this large"},
  {"Storage", "codec", 0, OPTION_ENUM, WORKER, "plain", .choices = {"plain", "zstd"}, .placeholder = "CODEC", FIELD(codec),
   .help = "whether blocks are compressed"},
  {"Storage", "file-mode", 0, OPTION_MODE, WORKER, "0640", 0600, 0777, .placeholder = "MODE", FIELD(file_mode),
   .help = "permissions of a new file, octal"},

  {"End", "exit-when-empty", 0, OPTION_BOOL, WORKER, .text = "false", FIELD(exit_when_empty),
   .help = "exit 0 when no message of its types is left, even if other workers wrote them"},
  {"End", "timeout", 0, OPTION_DURATION, WORKER, "none", 0, 8760ll * HOUR, "none", -1, .placeholder = "TIME", FIELD(timeout_ms),
   .help = "exit 69 if it still runs after this time, with the current batch finished; without --exit-when-empty it always ends this way"},
  {"End", "timeout", 0, OPTION_DURATION, SETUP, "60s", 0, 8760ll * HOUR, "none", -1, .placeholder = "TIME", FIELD(timeout_ms),
   .help = "how long to wait for the server, and then exit 69; 0s: ask once; also how long to wait for each type's lock, from the "
           "confirmation"},

  {"Health", "listen", 0, OPTION_ADDRESS, WORKER, "none", 1, UINT16_MAX, "none", .placeholder = "[ADDR:]PORT", FIELD(listen),
   .help = "answer HTTP there: /healthz, /readyz, and /metrics for Prometheus; without ADDR: all addresses of the machine"},
  {"Health", "health", 0, OPTION_ACTION, WORKER,
   .help = "ask the worker at --listen whether it is alive, and exit 0 if it is, 1 if not; needs no --type"},

  {"Pause", "pause", 0, OPTION_TEXT, STATUS, .placeholder = "TYPE", FIELD(pause),
   .help = "keep the workers away from this type: the holder ends its block and leaves; --reason says why"},
  {"Pause", "reason", 0, OPTION_TEXT, STATUS, .placeholder = "TEXT", FIELD(reason), .help = "with --pause: shown wherever the type is shown"},
  {"Pause", "resume", 0, OPTION_TEXT, STATUS, .placeholder = "TYPE", FIELD(resume), .help = "let the workers of a paused type go on"},

  {"HTTP", "listen", 0, OPTION_ADDRESS, MONITOR, "127.0.0.1:9465", 1, UINT16_MAX, "none", .placeholder = "[ADDR:]PORT", FIELD(listen),
   .help = "answer HTTP there: the page at /, /metrics for Prometheus, JSON at /api, /healthz; without ADDR: all addresses of the machine"},
  {"HTTP", "host-name", 0, OPTION_TEXT, MONITOR, .placeholder = "NAME", FIELD(host_names),
   .help = "answer requests for this host name, too, such as one that a proxy passes on; a comma list for several; *: any. Without it only "
           "requests for localhost or an IP address are answered, so that no other web page can read this one"},
  {"HTTP", "interval", 0, OPTION_DURATION, MONITOR, "1s", 200, MINUTE, .placeholder = "TIME", FIELD(interval_ms),
   .help = "how often it reads the database, however many clients ask; with no request for a minute, each fifth time"},

  {"Output", "json", 0, OPTION_BOOL, STATUS, .text = "false", FIELD(json), .help = "one JSON document a type, one a line"},
  {"Output", "watch", 0, OPTION_BOOL, STATUS, .text = "false", FIELD(watch), .help = "show it repeatedly, with rates"},
  {"Output", "top", 0, OPTION_BOOL, STATUS, .text = "false", FIELD(top),
   .help = "show it full screen, each second, with what is wrong first; ? there shows the keys"},
  {"Output", "peek", 0, OPTION_TEXT, STATUS, .placeholder = "TYPE", FIELD(peek),
   .help = "show the first documents of this type that wait, one line of JSON each; a worker takes them all the same. With --json they are not cut"},
  {"Output", "limit", 'n', OPTION_COUNT, STATUS, "10", 0, INT64_MAX, "none", -1, .placeholder = "N", FIELD(limit),
   .help = "with --peek: at most N documents"},
  {"Output", "format", 0, OPTION_WORD, DUMP, "relaxed",
   .choices = {"relaxed", "canonical", "payload", "bson", "hex", "blocks", "summary", "none"}, .placeholder = "FORMAT", FIELD(format),
   .help = "relaxed, canonical: Extended JSON, one message a line; payload: that field alone; bson, hex: the documents as they are; "
           "blocks: one line a block; summary: one line a segment; none"},
  {"Output", "with-meta", 0, OPTION_BOOL, DUMP, .text = "false", FIELD(with_meta),
   .help = "add seq, epoch, offset and time, and within a bundle the index, from 0"},
  {"Output", "documents", 0, OPTION_BOOL, DUMP, .text = "false", FIELD(documents),
   .help = "print each bundle as one document, as --format bson and hex do, instead of its messages; --limit, --tail "
           "and --count then count documents"},
  {"Output", "separator", 0, OPTION_SEPARATOR, DUMP, "\\n", .placeholder = "TEXT", FIELD(separator),
   .help = "after each payload, the last one too; knows \\n \\r \\t \\0 \\\\; may be empty"},
  {"Output", "count", 0, OPTION_BOOL, DUMP, .text = "false", FIELD(count), .help = "print only the number of messages; a bundle counts as many as it holds"},
  {"Output", "timeline", 0, OPTION_TEXT, DUMP, .placeholder = "FILE", FIELD(timeline),
   .help = "draw who wrote when and how much, a row a type, as a new SVG file (- is standard output), and print nothing else"},

  {"Selection", "from-seq", 0, OPTION_COUNT, DUMP, "none", 1, INT64_MAX, "none", -1, .placeholder = "N", FIELD(from_seq),
   .help = "from this document on (a bundle has one seq)"},
  {"Selection", "to-seq", 0, OPTION_COUNT, DUMP, "none", 1, INT64_MAX, "none", -1, .placeholder = "N", FIELD(to_seq),
   .help = "up to this document, included"},
  {"Selection", "since", 0, OPTION_TIME, DUMP, .placeholder = "WHEN", FIELD(since),
   .help = "written at or after this time: RFC 3339, or 15m for that long ago"},
  {"Selection", "until", 0, OPTION_TIME, DUMP, .placeholder = "WHEN", FIELD(until), .help = "written before this time"},
  {"Selection", "where", 0, OPTION_TEXT, DUMP, .placeholder = "FIELD=VALUE", FIELD(where),
   .help = "only messages in which FIELD has this value; FIELD may be a path such as order.id; those in bundles, too"},
  {"Selection", "limit", 'n', OPTION_COUNT, DUMP, "none", 0, INT64_MAX, "none", -1, .placeholder = "N", FIELD(limit),
   .help = "at most N messages"},
  {"Selection", "tail", 0, OPTION_COUNT, DUMP, "none", 0, INT64_MAX, "none", -1, .placeholder = "N", FIELD(tail),
   .help = "only the last N messages"},
  {"Selection", "follow", 'f', OPTION_BOOL, DUMP, .text = "false", FIELD(follow), .help = "continue as the file grows; the last block is printed when another follows it"},
  {"Selection", "unconfirmed", 0, OPTION_BOOL, DUMP, .text = "false", FIELD(unconfirmed), .help = "also what is beyond the committed end"},

  {"Checking", "check", 0, OPTION_BOOL, STATUS, .text = "false", FIELD(check),
   .help = "for cron and Nagios: print one line, and exit 0 if all is well, 1 for a warning, 2 if a limit is exceeded or it cannot be checked"},
  {"Checking", "max-age", 0, OPTION_DURATION, STATUS, "5m", 0, 8760ll * HOUR, "none", -1, .placeholder = "TIME", FIELD(max_age_ms),
   .help = "with --check: the oldest document of a type may be so old"},
  {"Checking", "max-documents", 0, OPTION_COUNT, STATUS, "none", 0, INT64_MAX, "none", -1, .placeholder = "N", FIELD(max_documents),
   .help = "with --check: how many documents of a type may wait; they are counted only with this option"},
  {"Checking", "strict", 0, OPTION_BOOL, DUMP, .text = "false", FIELD(strict), .help = "leave out what is unconfirmed, and exit 5"},
  {"Checking", "keep-going", 0, OPTION_BOOL, DUMP, .text = "false", FIELD(keep_going), .help = "continue after damage"},
  {"Checking", "verify", 0, OPTION_BOOL, DUMP, .text = "false", FIELD(verify), .help = "check everything; one verdict line a type; with --uri and no --type: each type of the ledger"},
  {"Checking", "deep", 0, OPTION_BOOL, DUMP, .text = "false", FIELD(deep), .help = "with --verify: check inside every document too"},

  {"General", "name", 0, OPTION_NAME, WORKER, .placeholder = "NAME", FIELD(name),
   .help = "how this worker is called where its host is shown, 1 to 64 bytes: NAME@HOST; default: by its host alone"},
  {"General", "log-level", 0, OPTION_ENUM, ALL & ~STATUS, "info", .choices = {"error", "warn", "info", "debug"}, .placeholder = "LEVEL",
   FIELD(log_level), .help = "log level"},
  {"General", "log-format", 0, OPTION_ENUM, WORKER | ENQUEUE | MONITOR, "text", .choices = {"text", "json"}, .placeholder = "FORM",
   FIELD(log_format), .help = "log format, one line an event"},
  {"General", "trace", 0, OPTION_TEXT, WORKER, .placeholder = "FIELD", FIELD(trace),
   .help = "log the value of FIELD, a path such as order.id, for each message that is written, at --log-level debug"},
  {"General", "quiet", 'q', OPTION_ACTION, ALL & ~STATUS, .help = "short for --log-level error"},
  {"General", "verbose", 'v', OPTION_ACTION, WORKER | ENQUEUE | LOCK | MONITOR, .help = "short for --log-level debug"},
  {"General", "config", 0, OPTION_FILE, ALL, .placeholder = "FILE", .help = "read options from FILE, one `name = value` a line"},
  {"General", "print-config", 0, OPTION_ACTION, ALL, .help = "show each option, its value and where it came from, and exit"},
  {"General", "help", 'h', OPTION_ACTION, ALL, .help = "show this, and exit"},
  {"General", "version", 'V', OPTION_ACTION, ALL, .help = "show the version, and exit"},
  {.flag = NULL},
};
/* clang-format on */

bool option_taken(const struct option_row *row, enum config_program program)
{
  return row->programs & BIT(program);
}

int option_find(enum config_program program, const char *flag)
{
  for (int i = 0; config_options[i].flag; i++)
    if (option_taken(&config_options[i], program) && strcmp(config_options[i].flag, flag) == 0)
      return i;
  return -1;
}

bool option_exists(const char *flag)
{
  for (enum config_program program = 0; program < CONFIG_PROGRAMS; program++)
    if (option_find(program, flag) >= 0)
      return true;
  return false;
}

void option_environment(const struct option_row *row, char *name, size_t size)
{
  snprintf(name, size, "PAWL_%s", row->flag);
  for (char *c = name; *c; c++)
    *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

void option_describe(const struct option_row *row, char *text, size_t size)
{
  char range[80];
  bool shows_default = row->text && row->kind != OPTION_BOOL;
  size_t used = (size_t)snprintf(text, size, "%s", row->help);
  for (int i = 0; row->choices[i] && !strstr(row->help, row->choices[0]); i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : ": ", row->choices[i]);
  value_range(row, range, sizeof range);
  if (*range || shows_default)
    snprintf(text + used, size - used, " [%s%s%s%s]", range, *range && row->text ? "; " : "", shows_default ? "default " : "",
             shows_default ? row->text : "");
}
