/* What config tells people: --help, --version, --print-config. */
#include "config/options.h"

enum { WIDTH = 100, COLUMN = 30 };

static const struct {
  const char *name, *usage, *about, *examples;
} programs[CONFIG_PROGRAMS] = {
    [CONFIG_WORKER] = {"pawl-worker", "--type TYPE [OPTION]...",
                       "Drains the MongoDB queue of each TYPE into one append-only file, exactly once and in order.\n"
                       "Start as many as you like, on any machines: one at a time writes a type, the others wait.",
                       "  pawl-worker --type t1 --dir /srv/pawl\n"
                       "  pawl-worker --type t1,t2 --uri-file /etc/pawl/uri --lease 10s\n"
                       "  PAWL_URI=mongodb://db1,db2/?replicaSet=rs0 pawl-worker --type t1 --exit-when-empty --timeout 1h"},
    [CONFIG_ENQUEUE] = {"pawl-enqueue", "--type TYPE [OPTION]... [FILE]...",
                        "Puts messages into the queue, from FILEs or standard input (also `-`).\n"
                        "Tells how many were acknowledged, which lines were bad, and which messages' fate is unknown.",
                        "  pawl-enqueue --type t1 access.log\n"
                        "  mongoexport --db old --collection m | pawl-enqueue --from ndjson --type t1\n"
                        "  pawl-enqueue --from bson dump/old/m.bson\n"
                        "  tail -F access.log | pawl-enqueue --type t1 --bundle auto"},
    [CONFIG_STATUS] = {"pawl-status", "[OPTION]...",
                       "Shows, for each type, what is queued, who holds it, and where its file ends.\n"
                       "QUEUED, SEQ and SETTLED count documents, ITEMS the messages in them (a bundle holds many). It only reads.",
                       "  pawl-status\n"
                       "  pawl-status --type t1 --json"},
    [CONFIG_SETUP] = {"pawl-setup", "[OPTION]...",
                      "Does what is needed once: makes collections and indexes, and initiates a replica set if asked to.\n"
                      "Run again, it changes nothing.",
                      "  pawl-setup --uri mongodb://db1\n"
                      "  pawl-setup --replica-set rs0 --member 127.0.0.1:27017"},
    [CONFIG_DUMP] = {"pawl-dump", "[OPTION]... FILE... | --dir DIR [--type TYPE]",
                     "Reads, verifies and follows storage files; it needs no MongoDB and takes no lock.\n"
                     "Data goes to standard output, all else to standard error.",
                     "  pawl-dump /srv/pawl/t1.bin\n"
                     "  pawl-dump --dir /srv/pawl --type t1 --from-seq 1000 -n 10 --with-meta\n"
                     "  pawl-dump --dir /srv/pawl --verify"},
    [CONFIG_LOCK] = {"pawl-lock", "[OPTION]... NAME -- COMMAND...",
                     "Runs COMMAND while it holds the lock NAME: flock(1) across machines.\n"
                     "It waits for the lock, renews it while COMMAND runs, gives it back when COMMAND ends, and exits as COMMAND does\n"
                     "(128+N when signal N ended it; 126, 127: it cannot be run, is not there). If the lock cannot be kept, COMMAND gets\n"
                     "SIGTERM after two thirds of the lease and SIGKILL at its end; then the exit code is 1.\n"
                     "A machine that freezes cannot see to that. For what must not happen twice even then, COMMAND finds in\n"
                     "PAWL_LOCK_EPOCH a number that rises with each holder: have what it writes to refuse a lower one than it has seen.\n"
                     "A lock is the one that the workers of a type of this name use, and keeps them out.",
                     "  pawl-lock nightly -- ./backup\n"
                     "  pawl-lock --timeout 0s nightly -- ./backup || echo \"somebody else is at it\"\n"
                     "  pawl-lock --lease 10s deploy -- sh -c 'put --fence \"$PAWL_LOCK_EPOCH\" release.tar'"},
};

const char *config_program_name(enum config_program program)
{
  return programs[program].name;
}

void config_version(enum config_program program, FILE *out)
{
  fprintf(out, "%s (pawl) %s\n", programs[program].name, PAWL_VERSION);
}

/* Words from `column` on, broken at WIDTH and indented to COLUMN. */
static void print_wrapped(const char *text, size_t column, FILE *out)
{
  for (bool first = true; *text; first = false) {
    size_t word = strcspn(text, " ");
    bool broken = !first && column + 1 + word > WIDTH;
    if (broken)
      fprintf(out, "\n%*s", COLUMN, "");
    fprintf(out, "%s%.*s", first || broken ? "" : " ", (int)word, text);
    column = (broken ? COLUMN : column + !first) + word;
    text += word;
    text += strspn(text, " ");
  }
  fputc('\n', out);
}

static void print_option(const struct option_row *row, FILE *out)
{
  char flag[64], range[80], text[700], letter[] = {'-', row->letter, ',', '\0'};
  bool shows_default = row->text && row->kind != OPTION_BOOL;
  size_t used = (size_t)snprintf(text, sizeof text, "%s", row->help);
  for (int i = 0; row->choices[i] && !strstr(row->help, row->choices[0]); i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : ": ", row->choices[i]);
  value_range(row, range, sizeof range);
  if (*range || shows_default)
    snprintf(text + used, sizeof text - used, " [%s%s%s%s]", range, *range && row->text ? "; " : "", shows_default ? "default " : "",
             shows_default ? row->text : "");
  snprintf(flag, sizeof flag, "--%s%s%s", row->flag, row->placeholder ? " " : "", row->placeholder ? row->placeholder : "");
  int column = fprintf(out, "  %-3s %-*s ", row->letter ? letter : "", COLUMN - 7, flag);
  print_wrapped(text, (size_t)column, out);
}

void config_help(enum config_program program, FILE *out)
{
  const char *group = "";
  fprintf(out, "Usage: %s %s\n\n%s\n", programs[program].name, programs[program].usage, programs[program].about);
  for (const struct option_row *row = config_options; row->flag; row++) {
    if (!option_taken(row, program))
      continue;
    if (strcmp(group, row->group) != 0)
      fprintf(out, "\n%s:\n", group = row->group);
    print_option(row, out);
  }
  fprintf(out,
          "\nTimes carry their unit: 250ms, 10s, 2m, 1h. Sizes may: 65536, 64KiB, 8MiB, 1GiB.\n"
          "A flag may also be set as an environment variable: PAWL_ and its name in capitals, with _ for -, such as\n"
          "PAWL_URI_FILE for --uri-file; a list has commas, a switch is true or false. Or in the --config file, as\n"
          "`uri-file = FILE`. The flag goes before the variable, the variable before the file.\n"
          "\nExamples:\n%s\n",
          programs[program].examples);
}

static void print_setting(const struct option_row *row, const struct config_setting *setting, FILE *out)
{
  char shown[2048];
  if (row->kind == OPTION_URI)
    config_uri_redact(setting->value, shown, sizeof shown);
  else
    config_quote(setting->value, shown, sizeof shown);
  fprintf(out, "%s = %s  ; %s\n", row->flag, shown, setting->origin);
}

void config_print(const struct config *config, FILE *out)
{
  for (int i = 0; config_options[i].flag; i++) {
    const struct option_row *row = &config_options[i];
    if (!option_taken(row, config->program) || row->kind == OPTION_ACTION)
      continue;
    if (config->settings[i].value)
      print_setting(row, &config->settings[i], out);
    else
      fprintf(out, "; %s is not set\n", row->flag);
  }
}
