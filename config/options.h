/*
 * options: the table that all of config works from. Private to config/.
 */
#ifndef PAWL_CONFIG_OPTIONS_H
#define PAWL_CONFIG_OPTIONS_H

#include "config/config.h"

enum option_kind {
  OPTION_TEXT,      /* const char *, not empty */
  OPTION_URI,       /* const char *; never shown but through config_uri_redact */
  OPTION_DB,        /* const char *, a database name */
  OPTION_SEPARATOR, /* const char *, may be empty; \n \r \t \0 \\ mean what they mean in C */
  OPTION_TIME,      /* const char *, checked by config_parse_time */
  OPTION_WORD,      /* const char *, one of `choices` */
  OPTION_ENUM,      /* an enum, the index in `choices` */
  OPTION_DURATION,  /* int64_t, ms */
  OPTION_BYTES,     /* int64_t */
  OPTION_COUNT,     /* int64_t */
  OPTION_MODE,      /* unsigned, octal */
  OPTION_BOOL,      /* bool */
  OPTION_TYPES,     /* the types, comma list */
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
  const char *none; /* a word accepted beside the range, which stores none_value */
  int64_t none_value;
  const char *choices[CHOICES_MAX + 1];
  const char *placeholder;
  const char *help;
  size_t offset; /* of the field in struct config */
};

/* The table; ends with a row whose flag is NULL. A flag may have several rows, for different programs. */
extern const struct option_row config_options[];

/* Index of the row of this flag for this program; -1: it takes none. */
int option_find(enum config_program program, const char *flag);
/* Some program takes the flag. */
bool option_exists(const char *flag);
bool option_taken(const struct option_row *row, enum config_program program);
/* The name of the environment variable. */
void option_environment(const struct option_row *row, char *name, size_t size);
/* What it is, what it takes and its default, in one sentence. */
void option_describe(const struct option_row *row, char *text, size_t size);

/* ---- programs.c: what --help and the man pages say beside the options ---- */

struct named_text {
  const char *name, *text;
};

/* The lists end with a name that is NULL. */
struct program_text {
  const char *name, *brief, *usage;
  const char *about;    /* lines */
  const char *examples; /* lines, each behind two blanks */
  struct named_text exits[8], variables[2], files[4];
};

extern const struct program_text config_programs[CONFIG_PROGRAMS];
extern const char *const config_values_text, *const config_sources_text;

/* ---- values.c: texts to values and back ---- */

/* Stores the value in its field. `text` must live as long as *config. False: it is not what the option takes. */
MUST_CHECK bool value_store(struct config *config, const struct option_row *row, char *text);
/* "a duration with its unit from 1s to 1h, e.g. 30s" */
void value_takes(const struct option_row *row, char *text, size_t size);
/* "1s to 1h"; empty: the kind has no range. */
void value_range(const struct option_row *row, char *text, size_t size);
/* The largest unit that divides it. */
void value_duration_text(int64_t ms, char *text, size_t size);
/* A database of MongoDB's own, in which nobody's collections belong. */
bool db_reserved(const char *name);

/* ---- sources.c: where texts come from ---- */

enum source { SOURCE_NONE, SOURCE_DEFAULT, SOURCE_FILE, SOURCE_ENVIRONMENT, SOURCE_FLAG }; /* a higher one wins */

struct config_setting {
  char *value; /* NULL: not set */
  char *origin;
  enum source source;
};

/* What the option is set to, unless a higher source did that already. A list grows by what its own source adds. */
void setting_put(struct config *config, int index, enum source source, const char *value, const char *origin);
/* Reads the flags into the settings; the rest of argv becomes `arguments`. */
MUST_CHECK enum config_status source_flags(struct config *config, int argc, char **argv, struct error *error);
void source_environment(struct config *config);
MUST_CHECK bool source_file(struct config *config, const char *path, struct error *error);
void source_defaults(struct config *config);

/* ---- keep.c ---- */

/* Memory that config_free frees. Never NULL. */
char *config_keep(struct config *config, char *heap);

/* ---- unknown.c ---- */

/* The option of one of these programs (bits) whose name comes nearest to `length` bytes of what was given; NULL: none is near. */
const struct option_row *option_nearest(unsigned programs, const char *given, size_t length);
/* A line for each variable PAWL_... that is no option of any program, and not known otherwise. */
void environment_warn(const struct config *config, FILE *err);

/* ---- redact.c ---- */

/* The database that the URI names; empty: none. False: what stands there is not clear, and nothing of it may be shown. */
MUST_CHECK bool uri_db(const char *uri, char *db, size_t size);

/* A copy fit for a message: one line, not too long. */
void config_quote(const char *value, char *text, size_t size);

#endif
