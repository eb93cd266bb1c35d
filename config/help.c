/* The output of --help, --version and --print-config. */
#include "config/options.h"

enum { WIDTH = 100, COLUMN = 30, EXIT_COLUMN = 7 };

void config_version(enum config_program program, FILE *out)
{
  fprintf(out, "%s (pawl) %s\n", config_programs[program].name, PAWL_VERSION);
}

/* Prints words from `column` on, breaks the lines at WIDTH, and indents them to `indent`. */
static void print_wrapped(const char *text, int column, int indent, FILE *out)
{
  for (bool first = true; *text; first = false) {
    int word = (int)strcspn(text, " ");
    bool broken = !first && column + 1 + word > WIDTH;
    if (broken)
      fprintf(out, "\n%*s", indent, "");
    fprintf(out, "%s%.*s", first || broken ? "" : " ", word, text);
    column = (broken ? indent : column + !first) + word;
    text += word;
    text += strspn(text, " ");
  }
  fputc('\n', out);
}

static void print_option(const struct option_row *row, FILE *out)
{
  char flag[64], text[700], letter[] = {'-', row->letter, ',', '\0'};
  option_describe(row, text, sizeof text);
  snprintf(flag, sizeof flag, "--%s%s%s", row->flag, row->placeholder ? " " : "", row->placeholder ? row->placeholder : "");
  int column = fprintf(out, "  %-3s %-*s ", row->letter ? letter : "", COLUMN - 7, flag);
  print_wrapped(text, column, COLUMN, out);
}

void config_help(enum config_program program, FILE *out)
{
  const struct program_text *about = &config_programs[program];
  const char *group = "";
  fprintf(out, "Usage: %s %s\n\n%s\n", about->name, about->usage, about->about);
  for (const struct option_row *row = config_options; row->flag; row++) {
    if (!option_taken(row, program))
      continue;
    if (strcmp(group, row->group) != 0)
      fprintf(out, "\n%s:\n", group = row->group);
    print_option(row, out);
  }
  fputc('\n', out);
  print_wrapped(config_values_text, 0, 0, out);
  print_wrapped(config_sources_text, 0, 0, out);
  fputs("\nExit codes:\n", out);
  for (const struct named_text *code = about->exits; code->name; code++)
    print_wrapped(code->text, fprintf(out, "  %-*s", EXIT_COLUMN - 2, code->name), EXIT_COLUMN, out);
  fprintf(out, "\nExamples:\n%s\n", about->examples);
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
