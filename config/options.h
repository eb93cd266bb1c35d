/*
 * options: the table of options, and the functions that the files of config/ share. Private to config/.
 */
#ifndef PAWL_CONFIG_OPTIONS_H
#define PAWL_CONFIG_OPTIONS_H

#include "config/config.h"

enum option_kind {
  OPTION_TEXT,      /* const char *, not empty */
  OPTION_URI,       /* const char *; shown only through config_uri_redact */
  OPTION_DB,        /* const char *, a database name */
  OPTION_NAME,      /* const char *, the name of a process (visible.h) */
  OPTION_SEPARATOR, /* const char *, may be empty; \n \r \t \0 \\ as in C */
  OPTION_TIME,      /* const char *, checked by config_parse_time */
  OPTION_WORD,      /* const char *, one of `choices` */
  OPTION_ENUM,      /* an enum, the index in `choices` */
  OPTION_DURATION,  /* int64_t, ms */
  OPTION_BYTES,     /* int64_t */
  OPTION_COUNT,     /* int64_t */
  OPTION_MODE,      /* unsigned, octal */
  OPTION_BOOL,      /* bool */
  OPTION_TYPES,     /* types, and patterns of types (type_pattern.h), comma list: `types` with `patterns`, or `excepts` */
  OPTION_ADDRESS,   /* struct config_address */
  OPTION_FILE,      /* a path that config itself opens: no field */
  OPTION_ACTION,    /* a flag only: no value, no field */
};

enum { CHOICES_MAX = 8 };

struct option_row {
  const char *group; /* heading in --help */
  const char *flag;
  char letter; /* 0: none */
  enum option_kind kind;
  unsigned programs; /* bit 1u << enum config_program */
  const char *text;  /* the default; NULL: not set */
  int64_t min, max;
  const char *none; /* a word accepted besides the range; it stores none_value */
  int64_t none_value;
  const char *choices[CHOICES_MAX + 1];
  const char *placeholder;
  const char *help;
  size_t offset; /* of the field in struct config */
};

/* The table. It ends with a row whose flag is NULL. A flag may have several rows, for different programs. */
extern const struct option_row config_options[];

/* Index of the row of this flag for this program; -1: the program does not take the flag. */
int option_find(enum config_program program, const char *flag);
/* True if any program takes the flag. */
bool option_exists(const char *flag);
bool option_taken(const struct option_row *row, enum config_program program);
/* Writes the name of the environment variable. */
void option_environment(const struct option_row *row, char *name, size_t size);
/* Writes what the option is, what it takes and its default, in one sentence. */
void option_describe(const struct option_row *row, char *text, size_t size);

/* ---- programs.c: the texts of --help and the man pages besides the options ---- */

struct named_text {
  const char *name, *text;
};

/* The lists end with a name that is NULL. */
struct program_text {
  const char *name, *brief, *usage;
  const char *about;    /* lines */
  const char *examples; /* lines, each with two leading blanks */
  struct named_text exits[8], variables[4], files[4];
};

extern const struct program_text config_programs[CONFIG_PROGRAMS];
extern const char *const config_values_text, *const config_sources_text;

/* ---- checks of several options together: false with an error that names them ---- */

enum { REASON_BYTES_MAX = 255 };
/* Whether a reason for others to read is one; NULL: it is not given. */
MUST_CHECK bool reason_check(const char *reason, struct error *error);
/* Whether a type that an option names is one; NULL: it is not given. */
MUST_CHECK bool type_check(const char *flag, const char *type, struct error *error);
/* setup_check.c: pawl-setup. */
MUST_CHECK bool setup_check(const struct config *config, struct error *error);
/* status_modes.c: what pawl-status is to do. */
MUST_CHECK bool status_modes_check(const struct config *config, struct error *error);

/* ---- values.c: texts to values and back ---- */

/* Stores the value in its field. `text` must live as long as *config. False: the option does not take it. */
MUST_CHECK bool value_store(struct config *config, const struct option_row *row, char *text);
/* false or true, no or yes, 0 or 1, in any case of letters. False: none of these. */
MUST_CHECK bool value_bool(const char *text, bool *value);
/* Writes what the option takes: "a duration with its unit from 1s to 1h, e.g. 30s". */
void value_takes(const struct option_row *row, char *text, size_t size);
/* Writes the range: "1s to 1h"; empty: the kind has no range. */
void value_range(const struct option_row *row, char *text, size_t size);
/* Writes the duration in the largest unit that divides it. */
void value_duration_text(int64_t ms, char *text, size_t size);
/* True for a database that MongoDB keeps for itself. */
bool db_reserved(const char *name);

/* ---- config.c ---- */

/* Sets the error about a wrong value. It shows the value, except that of a URI option, which may contain a password. */
void wrong_value(const struct config *config, int index, struct error *error);

/* ---- uri.c: the options of a connection ---- */

/* Reads the files that hold a URI; before the values are stored. False: `error` names the option, and shows nothing of a URI. */
MUST_CHECK bool uris_resolve(struct config *config, struct error *error);
/* The database that a URI names, where its option is not given; after the values are stored. */
MUST_CHECK bool dbs_resolve(struct config *config, struct error *error);

/* ---- types.c: lists of types ---- */

/* As value_store. */
MUST_CHECK bool types_store(struct config *config, const struct option_row *row, const char *text);
/* What of a list is neither a type nor a pattern: `length` bytes of the text. NULL: nothing. */
const char *types_wrong(const char *text, size_t *length);
bool types_same(const struct config *left, const struct config *right, const struct option_row *row);
/* In a program that takes no patterns. */
MUST_CHECK bool types_resolve(struct config *config, struct error *error);
/* pawl-worker: whether --type and --except go together; and the default of --types-max. */
MUST_CHECK bool worker_types_derive(struct config *config, struct error *error);

/* ---- sources.c: where texts come from ---- */

enum source { SOURCE_NONE, SOURCE_DEFAULT, SOURCE_FILE, SOURCE_ENVIRONMENT, SOURCE_FLAG }; /* a higher one wins */

struct config_setting {
  char *value; /* NULL: not set */
  char *origin;
  enum source source;
};

/* Sets the option to a copy of `value`, unless a higher source has already set it. A list grows by each value of the same source. */
void setting_put(struct config *config, int index, enum source source, const char *value, const char *origin);
/* Reads the flags into the settings; the rest of argv becomes `arguments`. */
MUST_CHECK enum config_status source_flags(struct config *config, int argc, char **argv, struct error *error);
void source_environment(struct config *config);
MUST_CHECK bool source_file(struct config *config, const char *path, struct error *error);
void source_defaults(struct config *config);

/* ---- keep.c ---- */

/* Registers `heap` (not NULL) so that config_free frees it, and returns it. Never NULL. */
char *config_keep(struct config *config, char *heap);

/* ---- unknown.c ---- */

/* The option of one of these programs (bits) whose name is nearest to the `length` bytes at `given`; NULL: none is near. */
const struct option_row *option_nearest(unsigned programs, const char *given, size_t length);
/* Prints a warning for each variable PAWL_... that is not an option of any program and has no other known use. */
void environment_warn(const struct config *config, FILE *err);

/* ---- redact.c ---- */

/* Writes the database that the URI names; empty: none. False: it is unclear what the URI says there, and no part of it may be shown. */
MUST_CHECK bool uri_db(const char *uri, char *db, size_t size);

/* Writes a copy that is fit for a message: one line, cut to `size`, a URI redacted. */
void config_quote(const char *value, char *text, size_t size);

#endif
