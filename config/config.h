/*
 * config: the configuration of a pawl program. One table of options (options.c) defines the flags, the environment variables, the keys of
 * the file and --help of each program; config_load turns them into a plain struct.
 *
 * Precedence, highest first:
 *   flag          --lease 30s, --lease=30s; an unambiguous prefix of a flag is enough; `--` ends the flags
 *   environment   PAWL_LEASE=30s: PAWL_, the flag in capitals, '-' as '_'. Empty counts as not set; an unknown name gives a warning
 *   file          `lease = 30s`, one a line, in the INI file that --config or PAWL_CONFIG names; no [sections].
 *                 A key that only another pawl program takes is ignored, so that all programs can share one file. A key that no
 *                 program takes, or one that is set twice, is an error
 *   default
 * A repeatable option (--type, --except) at one level replaces the values of the lower levels; at each level it may be a comma list, and in
 * the file it may be set several times. config_load checks only the value that counts. With pawl-dump FILE, --type and --dir count only as
 * flags.
 *
 * Only flags, not in environment or file: help, version, print-config, quiet, verbose, health.
 *
 * Ownership: every pointer in struct config is valid until config_free, except the strings of `arguments`, and `names` and `command`, which
 * belong to argv.
 * Threads: config_load uses getopt and getenv: one thread at a time, while no thread changes the environment. It blocks only to read the
 * files that --config and --uri-file name. The functions print only to the FILE that they are given, and none exits.
 *
 * The precedence follows the Twelve-Factor App (III, config); the single table with units follows PgBouncer.
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
  CONFIG_MONITOR,
};
#define CONFIG_PROGRAMS (CONFIG_MONITOR + 1)

enum config_log_level { CONFIG_LOG_ERROR, CONFIG_LOG_WARN, CONFIG_LOG_INFO, CONFIG_LOG_DEBUG };
enum config_log_format { CONFIG_FORMAT_TEXT, CONFIG_FORMAT_JSON };
enum config_codec { CONFIG_CODEC_PLAIN, CONFIG_CODEC_ZSTD };
enum config_from { CONFIG_FROM_LINES, CONFIG_FROM_NDJSON, CONFIG_FROM_BSON };
enum { CONFIG_BUNDLE_AUTO = -1 };

/* The address to listen on. */
struct config_address {
  const char *host; /* a numeric IPv4 or IPv6 address; NULL: all addresses of the machine */
  uint16_t port;    /* 0: do not listen */
};

struct config_setting; /* the text of one option, and its source */

/* A field of an option that the program does not take is 0. */
struct config {
  /* MongoDB, and options that several programs share */
  const char *uri; /* NULL in pawl-dump if not given */
  bool uri_given;  /* uri or uri-file was given */
  const char *db;  /* NULL: the URI's, else "pawl" */
  const char *dir;
  char (*types)[TYPE_BYTES_MAX + 1]; /* in the order given, each valid, none twice */
  size_t type_count;
  /* pawl-worker: the patterns of --type, of --except, and how many types it holds at the same time */
  char (*patterns)[TYPE_BYTES_MAX + 1];
  size_t pattern_count;
  char (*excepts)[TYPE_BYTES_MAX + 1];
  size_t except_count;
  int64_t types_max;           /* 0: no limit */
  bool types_max_counts_named; /* it was given: it is for `types`, too; otherwise only for those that `patterns` find */
  enum config_log_level log_level;
  enum config_log_format log_format;

  /* pawl-worker; also pawl-lock: lease, retry and timeout; pawl-setup: timeout; pawl-enqueue: batch_messages */
  int64_t lease_ms;
  int64_t retry_ms;
  int64_t poll_ms;
  int64_t linger_ms;  /* 0 if it was not given and exit_when_empty is set */
  int64_t stall_ms;   /* already the larger of --stall and 3 leases */
  int64_t timeout_ms; /* -1: none */
  int64_t batch_messages;
  int64_t batch_bytes;
  int64_t memory_bytes;
  int64_t segment_bytes; /* 0: never roll */
  enum config_codec codec;
  bool exit_when_empty;
  unsigned file_mode;
  struct config_address listen;
  const char *name;  /* for people; NULL: not given */
  const char *trace; /* a valid path to a field (base.h); NULL: not given */
  bool health;       /* query the worker at `listen`, which is then set; `types` may be empty */

  /* pawl-enqueue */
  enum config_from from;
  int64_t bundle; /* maximum number of messages in a document; 0: no bundles; CONFIG_BUNDLE_AUTO */

  /* pawl-enqueue, pawl-dump */
  bool strict;

  /* pawl-status */
  bool json;
  bool watch;
  bool top, check;       /* of watch, top, check and peek at most one is set */
  const char *peek;      /* a valid type; NULL: not given. `limit` documents of it */
  int64_t max_age_ms;    /* -1: no limit */
  int64_t max_documents; /* -1: no limit */

  /* pawl-setup */
  const char *replica_set; /* NULL: do not initiate */
  const char *member;      /* HOST:PORT; NULL: not given */
  const char *adopt;       /* a valid type; NULL: none. `dir` is then set */
  bool list_refused;
  bool own_collection, shared_collection; /* then there is at least one type */
  const char *set_aside,
      *put_back;     /* a comma list of valid types and "@untyped"; NULL: not given. At most one of these, those above and adopt is */
  const char *carry; /* a valid type, and then to_uri is set; NULL: none. At most one of this and the above is */
  const char *to_uri, *to_db; /* NULL: not given; to_db: the one in the URI, else pawl */
  bool yes;
  bool yes_typed; /* it was a flag: it says more than that of the environment or a file, which may be for other tasks */

  /* pawl-dump */
  const char *format;    /* one of relaxed canonical payload bson hex blocks summary none */
  const char *separator; /* separator_bytes long; may contain a NUL */
  size_t separator_bytes;
  const char *since, *until;                  /* for config_parse_time, syntax already checked; NULL: not given */
  int64_t from_seq, to_seq;                   /* -1: not given */
  const char *timeline;                       /* a file name, or -; NULL: not given */
  const char *where;                          /* FIELD=VALUE, FIELD a valid path (base.h); NULL: not given */
  int64_t limit, tail;                        /* -1: not given */
  bool with_meta, documents, count, follow;   /* as the flags of these names */
  bool unconfirmed, keep_going, verify, deep; /* as the flags of these names */

  /* pawl-status: instead of showing; at most one is set, and is a valid type; NULL: not given */
  const char *pause, *resume;

  /* pawl-lock */
  /* instead of a command; at most one is set, and then there are no names and no command */
  const char *forget, *show, *break_name; /* the name of a lock; NULL: not given */
  bool list, prune;
  const char *reason; /* given with break_name, and with pause */
  char **names;       /* of the locks: at least one, NULL-terminated, each by the rules for a type, none twice; as `arguments` */
  char **command;     /* the words after `--`: at least one, NULL-terminated, in argv */
  bool nonblock;      /* then timeout_ms is 0 */
  bool hold;          /* there is no command */
  const char *document, *sort, *field; /* document: instead of names, which is then NULL; NULL: not given. sort: NULL: not given */
  int64_t slots;
  int64_t conflict_exit, lost_exit;

  /* pawl-monitor; also `listen`, whose port is then set */
  int64_t interval_ms;
  const char *host_names; /* a comma list, not checked; NULL: not given */

  /* positional; in pawl-lock those before `--` */
  char **arguments; /* NULL-terminated */
  int argument_count;

  /* private to config */
  enum config_program program;
  struct config_setting *settings;
  char **owned;
  size_t owned_count;
};

enum config_status {
  CONFIG_RUN,     /* continue with *config */
  CONFIG_HELP,    /* the user asked for --help; nothing else was checked */
  CONFIG_VERSION, /* the same for --version */
  CONFIG_PRINT,   /* the user asked for --print-config; *config is complete and valid */
  CONFIG_WRONG,   /* `error` names the option, the value, its source, and what the option takes */
};

/* Fills *config. config_free must follow, whatever the result is. */
MUST_CHECK enum config_status config_load(struct config *config, enum config_program program, int argc, char **argv, struct error *error);
void config_free(struct config *config);

/*
 * Calls config_load and prints what follows from it: help, version and settings to `out`, a wrong option and unknown variables to `err`.
 * True: run. False: return *exit_code from main; *config is already freed.
 */
MUST_CHECK bool config_begin(struct config *config, enum config_program program, int argc, char **argv, FILE *out, FILE *err,
                             int *exit_code);

const char *config_program_name(enum config_program program);
/* The file that `config` or `uri-file` names; NULL: none. As long as *config. */
const char *config_file_name(const struct config *config, const char *flag);
/* The name of the database, for messages to the user: that of --db, else the URI's, else "pawl". Valid as long as *config. */
const char *config_db_name(const struct config *config);
void config_help(enum config_program program, FILE *out);
void config_version(enum config_program program, FILE *out);
/* Prints each option, its value and its source, in the form of a --config file; secrets in the URI are hidden. */
void config_print(const struct config *config, FILE *out);

/*
 * Parses a time of --since or --until: RFC 3339, or a duration, which counts back from now_us. Both times are in microseconds since 1970
 * UTC. False: `text` is neither, or the result overflows.
 */
MUST_CHECK bool config_parse_time(const char *text, int64_t now_us, int64_t *time_us);

/*
 * Calls `each` for every option whose value is another in `now` than in `before`, two configurations of one program. The texts are fit for
 * a message, and valid during the call: of a URI without its secrets, so that both may look the same.
 */
enum { CONFIG_VALUE_SIZE = 300 };
typedef void config_difference(void *context, const char *flag, const char *before, const char *now);
void config_compare(const struct config *before, const struct config *now, config_difference *each, void *context);

/*
 * Writes the URI as it may be shown, cut to `size` bytes: passwords, and each value of an option that is not known to be harmless, become
 * ***. The URI may be malformed: if it is unclear what is a password, more is hidden, never less.
 */
void config_uri_redact(const char *uri, char *text, size_t size);

/* True if systemd's journal reads stderr: it adds a time to each line, and accepts a priority before it. */
MUST_CHECK bool config_journal(void);
/* The prefix of a line on stderr, such as "<4>" for a warning; empty if no journal reads stderr. */
const char *config_priority(enum config_log_level level);

#endif
