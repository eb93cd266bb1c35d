/*
 * config: what a pawl program was told to do. One table of options (options.c) feeds the flags, the environment, the file
 * and --help of every program; config_load turns them into a plain struct.
 *
 * Precedence, highest first:
 *   flag          --lease 30s, --lease=30s; an unambiguous beginning of a flag is enough; `--` ends the flags
 *   environment   PAWL_LEASE=30s: PAWL_, the flag in capitals, '-' as '_'. Empty counts as not set; an unknown name is warned about
 *   file          `lease = 30s`, one a line, in the INI file that --config or PAWL_CONFIG names; no [sections].
 *                 A key that only another pawl program takes is passed over, so that all may share one file; a key that none
 *                 takes, or one that is set twice, is an error
 *   default
 * A repeatable option (--type) given at one level replaces what the levels below say; at each level it may be a comma list.
 * A value is checked only if it is the one that counts. In pawl-dump FILE, --type and --dir count only as flags.
 *
 * Not set from environment or file: help, version, print-config, quiet, verbose, health.
 *
 * Ownership: every pointer in struct config lives until config_free, except the strings of `arguments`, and `name` and `command`, which are
 * argv's.
 * Threads: config_load uses getopt and getenv: call it from main, before there are threads. It blocks only to read the files
 * named by --config and --uri-file. No function here prints, but to the FILE it was given, and none exits.
 *
 * The way of layering is the Twelve-Factor App's (III, config); the one table with units is PgBouncer's.
 */
#ifndef PAWL_CONFIG_CONFIG_H
#define PAWL_CONFIG_CONFIG_H

#include "base.h"

enum config_program {
  CONFIG_WORKER,
  CONFIG_ENQUEUE,
  CONFIG_STATUS,
  CONFIG_SETUP,
  CONFIG_DUMP,
  CONFIG_LOCK,
};
#define CONFIG_PROGRAMS (CONFIG_LOCK + 1)

enum config_log_level { CONFIG_LOG_ERROR, CONFIG_LOG_WARN, CONFIG_LOG_INFO, CONFIG_LOG_DEBUG };
enum config_log_format { CONFIG_FORMAT_TEXT, CONFIG_FORMAT_JSON };
enum config_codec { CONFIG_CODEC_PLAIN, CONFIG_CODEC_ZSTD };
enum config_from { CONFIG_FROM_LINES, CONFIG_FROM_NDJSON, CONFIG_FROM_BSON };
enum { CONFIG_BUNDLE_AUTO = -1 };

/* Where to listen. */
struct config_address {
  const char *host; /* a numeric IPv4 or IPv6 address; NULL: all of the machine's */
  uint16_t port;    /* 0: nowhere */
};

struct config_setting; /* the text of one option, and where it came from */

/* A field that the program does not take is 0. */
struct config {
  /* MongoDB and what all share */
  const char *uri; /* NULL in pawl-dump if not given */
  bool uri_given;  /* uri, or uri-file, is not the default */
  const char *db;  /* NULL: the URI's, else "pawl" */
  const char *dir;
  char (*types)[TYPE_BYTES_MAX + 1]; /* in the order given, each valid, none twice */
  size_t type_count;
  enum config_log_level log_level;
  enum config_log_format log_format;

  /* pawl-worker; lease, retry and timeout pawl-lock too, batch_messages pawl-enqueue too */
  int64_t lease_ms;
  int64_t retry_ms;
  int64_t poll_ms;
  int64_t linger_ms; /* 0 if it was not given and exit_when_empty is set */
  bool linger_given;
  int64_t stall_ms;   /* already the larger of --stall and 3 leases */
  int64_t timeout_ms; /* -1: none */
  int64_t batch_messages;
  int64_t batch_bytes;
  int64_t segment_bytes; /* 0: never roll */
  enum config_codec codec;
  bool codec_zstd; /* the same, as a bool */
  bool exit_when_empty;
  unsigned file_mode;
  struct config_address listen;
  bool health; /* ask the worker at `listen`, which is set then; `types` may be empty */

  /* pawl-enqueue */
  enum config_from from;
  int64_t bundle; /* messages in a document at most; 0: no bundles; CONFIG_BUNDLE_AUTO */

  /* pawl-enqueue, pawl-dump */
  bool strict;

  /* pawl-status */
  bool json;
  bool watch;

  /* pawl-setup */
  const char *replica_set; /* NULL: do not initiate */
  const char *member;      /* HOST:PORT; NULL: not given */
  const char *adopt;       /* a valid type; NULL: none. `dir` is given then */
  bool yes;

  /* pawl-dump */
  const char *format;    /* one of relaxed canonical payload bson hex blocks summary none */
  const char *separator; /* separator_bytes of it; may hold a NUL */
  size_t separator_bytes;
  const char *since, *until;                  /* for config_parse_time, syntax already checked; NULL: not given */
  int64_t from_seq, to_seq;                   /* -1: not given */
  int64_t limit, tail;                        /* -1: not given */
  bool with_meta, documents, count, follow;   /* as their flags */
  bool unconfirmed, keep_going, verify, deep; /* as their flags */

  /* pawl-lock */
  const char *forget; /* the name of a lock; NULL: none. Then `name` is that, and there is no command */
  const char *name;   /* of the lock: it obeys the rules of a type */
  char **command;     /* what stands behind `--`: at least one word, NULL-terminated, argv's */

  /* positional; in pawl-lock what stands before `--` */
  char **arguments; /* NULL-terminated */
  int argument_count;

  /* config's own */
  enum config_program program;
  struct config_setting *settings;
  char **owned;
  size_t owned_count;
};

enum config_status {
  CONFIG_RUN,     /* go on with *config */
  CONFIG_HELP,    /* the user asked for --help; nothing else was looked at */
  CONFIG_VERSION, /* for --version; likewise */
  CONFIG_PRINT,   /* for --print-config; *config is complete and right */
  CONFIG_WRONG,   /* `error` names the option, the value, where it came from and what it takes */
};

/* Fills *config. Whatever it answers, config_free must follow. */
MUST_CHECK enum config_status config_load(struct config *config, enum config_program program, int argc, char **argv, struct error *error);
void config_free(struct config *config);

/*
 * config_load, and all the talking that may have to follow it: help, version and settings to `out`, a wrong option and unknown
 * variables to `err`.
 * True: run. False: leave main with *exit_code; *config is freed already.
 */
MUST_CHECK bool config_begin(struct config *config, enum config_program program, int argc, char **argv, FILE *out, FILE *err,
                             int *exit_code);

const char *config_program_name(enum config_program program);
/* The database that counts, for messages: of --db, else the URI's, else "pawl". Lives as long as *config. */
const char *config_db_name(const struct config *config);
void config_help(enum config_program program, FILE *out);
void config_version(enum config_program program, FILE *out);
/* Each option, its value and where that came from, in the form of a --config file; secrets in the URI are hidden. */
void config_print(const struct config *config, FILE *out);

/*
 * A time of --since or --until: RFC 3339, or a duration that long before now_us. Both in microseconds since 1970 UTC.
 * False: neither, or it does not fit.
 */
MUST_CHECK bool config_parse_time(const char *text, int64_t now_us, int64_t *time_us);

/*
 * The URI as it may be shown, cut to `size`: passwords, and every value of an option not known to be harmless, become ***.
 * It may be malformed: where it is not clear what is a password, more is hidden, never less.
 */
void config_uri_redact(const char *uri, char *text, size_t size);

/* stderr is read by systemd's journal, which has a time for each line, and takes a priority in front of it. */
MUST_CHECK bool config_journal(void);
/* What to begin a line on stderr with: "<4>" for a warning, say; empty where no journal reads it. */
const char *config_priority(enum config_log_level level);

#endif
