/*
 * config_man PROGRAM: writes the man page of a program to stdout, from the same texts as --help. The build runs it.
 * The macros are those of groff_man(7).
 */
#include "config/options.h"

#include <ctype.h>

enum { LINE_BYTES_MAX = 70 };

/* Prints each byte so that it appears as itself: troff interprets `\`, `-` and quotes, and `.` at the beginning of a line. */
static int print_escaped(const char *text, int length)
{
  static const struct {
    char byte;
    const char *escape;
  } escapes[] = {{'\\', "\\e"}, {'-', "\\-"}, {'\'', "\\(aq"}, {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
  int printed = *text == '.' ? printf("\\&") : 0;
  for (int i = 0; i < length; i++) {
    char byte[] = {text[i], '\0'};
    const char *as = byte;
    for (size_t k = 0; k < sizeof escapes / sizeof *escapes; k++)
      if (escapes[k].byte == text[i])
        as = escapes[k].escape;
    printed += printf("%s", as);
  }
  return printed;
}

static void print_words(const char *text)
{
  static const char blanks[] = " \n";
  int column = 0;
  for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
    int length = (int)strcspn(text, blanks);
    if (column > 0 && column + length > LINE_BYTES_MAX) {
      printf("\n");
      column = 0;
    }
    if (column > 0)
      column += printf(" ");
    column += print_escaped(text, length);
    text += length;
  }
  printf("\n");
}

/* Prints the lines unchanged, but without their two leading blanks. */
static void print_lines(const char *text)
{
  printf(".EX\n");
  for (; *text; text += strspn(text, "\n")) {
    int length = (int)strcspn(text, "\n");
    print_escaped(text + 2, length - 2);
    printf("\n");
    text += length;
  }
  printf(".EE\n");
}

static void print_list(const struct named_text *item)
{
  for (; item->name; item++) {
    printf(".TP\n");
    print_words(item->name);
    print_words(item->text);
  }
}

static void print_option(const struct option_row *row)
{
  char text[700];
  option_describe(row, text, sizeof text);
  printf(".TP\n");
  if (row->letter)
    printf("\\fB\\-%c\\fR, ", row->letter);
  printf("\\fB\\-\\-");
  print_escaped(row->flag, (int)strlen(row->flag));
  printf("\\fR");
  if (row->placeholder)
    printf(" \\fI%s\\fR", row->placeholder);
  printf("\n");
  print_words(text);
}

static void print_options(enum config_program program)
{
  const char *group = "";
  for (const struct option_row *row = config_options; row->flag; row++) {
    if (!option_taken(row, program))
      continue;
    if (strcmp(group, row->group) != 0)
      printf(".SS %s\n", group = row->group);
    print_option(row);
  }
}

static void print_variables(enum config_program program)
{
  char name[80];
  const char *separator = "";
  for (const struct option_row *row = config_options; row->flag; row++) {
    if (!option_taken(row, program) || row->kind == OPTION_ACTION)
      continue;
    option_environment(row, name, sizeof name);
    printf("%s%s", separator, name);
    separator = ",\n";
  }
  printf("\n");
}

static void print_head(const struct program_text *about)
{
  printf(".TH ");
  for (const char *c = about->name; *c; c++)
    printf("%c", toupper((unsigned char)*c));
  printf(" 1 " PAWL_DATE " \"pawl " PAWL_VERSION "\" \"User Commands\"\n.SH NAME\n");
  print_escaped(about->name, (int)strlen(about->name));
  printf(" \\- ");
  print_words(about->brief);
}

static void print_see_also(enum config_program program)
{
  const char *separator = "";
  printf(".SH SEE ALSO\n");
  for (enum config_program other = 0; other < CONFIG_PROGRAMS; other++) {
    if (other == program)
      continue;
    printf("%s\\fB", separator);
    print_escaped(config_programs[other].name, (int)strlen(config_programs[other].name));
    printf("\\fR(1)");
    separator = ",\n";
  }
  printf("\n");
}

static void print_page(enum config_program program)
{
  const struct program_text *about = &config_programs[program];
  print_head(about);
  printf(".SH SYNOPSIS\n.B ");
  print_words(about->name);
  print_words(about->usage);
  printf(".SH DESCRIPTION\n");
  print_words(about->about);
  printf(".SH OPTIONS\n");
  print_words(config_values_text);
  print_options(program);
  printf(".SH EXIT STATUS\n");
  print_list(about->exits);
  printf(".SH ENVIRONMENT\n");
  print_words(config_sources_text);
  printf(".PP\n");
  print_variables(program);
  print_list(about->variables);
  if (about->files[0].name) {
    printf(".SH FILES\n");
    print_list(about->files);
  }
  printf(".SH EXAMPLES\n");
  print_lines(about->examples);
  print_see_also(program);
}

int main(int argc, char **argv)
{
  for (enum config_program program = 0; argc == 2 && program < CONFIG_PROGRAMS; program++)
    if (strcmp(argv[1], config_program_name(program)) == 0) {
      print_page(program);
      return fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED;
    }
  fprintf(stderr, "usage: config_man PROGRAM\n");
  return EXIT_USAGE;
}
