/*
 * config_completion bash|zsh PROGRAM: writes the completion of a program for that shell to stdout, from the table of options. The build
 * runs it. What an option takes is completed as far as the table knows it: choices, directories, files. Everything else is free text.
 */
#include "config/options.h"

#include <ctype.h>

enum value {
  VALUE_NONE,        /* the option takes none */
  VALUE_SWITCH,      /* none, or =true, =false */
  VALUE_WORDS,       /* choices; for a number, the words that it also takes */
  VALUE_DIRECTORIES, /* by the placeholder DIR */
  VALUE_FILES,       /* by the placeholder FILE */
  VALUE_TEXT,
};

static enum value value_of(const struct option_row *row)
{
  if (row->kind == OPTION_ACTION)
    return VALUE_NONE;
  if (row->kind == OPTION_BOOL)
    return VALUE_SWITCH;
  if (row->choices[0] || row->none)
    return VALUE_WORDS;
  if (strcmp(row->placeholder, "DIR") == 0)
    return VALUE_DIRECTORIES;
  return strcmp(row->placeholder, "FILE") == 0 ? VALUE_FILES : VALUE_TEXT;
}

static bool takes_files(enum config_program program)
{
  return program == CONFIG_ENQUEUE || program == CONFIG_DUMP;
}

/* After `--`. */
static bool takes_command(enum config_program program)
{
  return program == CONFIG_LOCK;
}

static void print_words(const struct option_row *row)
{
  for (int i = 0; row->choices[i]; i++)
    printf("%s%s", i ? " " : "", row->choices[i]);
  if (row->none)
    printf("%s%s", row->choices[0] ? " " : "", row->none);
}

/* ---- bash ---- */

/* The beginning of a branch of the case: -n | --limit) */
static void print_pattern(const struct option_row *row)
{
  printf("    ");
  if (row->letter)
    printf("-%c | ", row->letter);
  printf("--%s)", row->flag);
}

/* Of a path readline does the rest, with all its quoting: it does so where the function has no reply. */
static void print_branch(const struct option_row *row)
{
  switch (value_of(row)) {
  case VALUE_NONE:
    return;
  case VALUE_SWITCH:
    print_pattern(row);
    printf(" [[ -z $equals ]] || { COMPREPLY=($(compgen -W 'true false' -- \"$cur\")); return; } ;;\n");
    return;
  case VALUE_WORDS:
    print_pattern(row);
    printf(" COMPREPLY=($(compgen -W '");
    print_words(row);
    printf("' -- \"$cur\")); return ;;\n");
    return;
  case VALUE_DIRECTORIES:
    print_pattern(row);
    printf(" compopt -o dirnames; return ;;\n");
    return;
  case VALUE_FILES:
    print_pattern(row);
    printf(" compopt -o default; return ;;\n");
    return;
  case VALUE_TEXT:
    print_pattern(row);
    printf(" return ;;\n");
    return;
  }
}

static void print_flags(enum config_program program)
{
  const char *separator = "";
  for (const struct option_row *row = config_options; row->flag; row++) {
    if (!option_taken(row, program))
      continue;
    printf("%s--%s", separator, row->flag);
    separator = " ";
    if (row->letter)
      printf(" -%c", row->letter);
  }
}

static const char bash_command[] = "  local -i dashes\n"
                                   "  for ((dashes = 1; dashes < COMP_CWORD; dashes++)); do\n"
                                   "    [[ ${COMP_WORDS[dashes]} == -- ]] || continue\n"
                                   "    if declare -F _comp_command_offset >/dev/null; then\n"
                                   "      _comp_command_offset $((dashes + 1))\n"
                                   "    elif declare -F _command_offset >/dev/null; then\n"
                                   "      _command_offset $((dashes + 1))\n"
                                   "    elif ((COMP_CWORD == dashes + 1)); then\n"
                                   "      COMPREPLY=($(compgen -c -- \"$cur\"))\n"
                                   "    else\n"
                                   "      compopt -o default\n"
                                   "    fi\n"
                                   "    return\n"
                                   "  done\n";

static void print_bash(enum config_program program)
{
  char function[80];
  const char *name = config_program_name(program);
  snprintf(function, sizeof function, "_%s", name);
  for (char *c = function; *c; c++)
    *c = *c == '-' ? '_' : *c;
  printf("# bash completion of %s. Needs no other file.\n\n"
         "%s()\n{\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} equals=\n"
         "  COMPREPLY=()\n"
         "  # Three words: --option = value\n"
         "  if [[ $cur == '=' ]]; then\n"
         "    cur='' equals=1\n"
         "  elif [[ $option == '=' ]]; then\n"
         "    option=${COMP_WORDS[COMP_CWORD - 2]} equals=1\n"
         "  fi\n",
         name, function);
  if (takes_command(program))
    printf("%s", bash_command);
  printf("  case $option in\n");
  for (const struct option_row *row = config_options; row->flag; row++)
    if (option_taken(row, program))
      print_branch(row);
  printf("  esac\n");
  if (takes_files(program))
    printf("  if [[ $cur != -* ]]; then\n    compopt -o default\n    return\n  fi\n");
  printf("  COMPREPLY=($(compgen -W '");
  print_flags(program);
  printf("' -- \"$cur\"))\n}\n\ncomplete -F %s %s\n", function, name);
}

/* ---- zsh ---- */

/* Inside of '…', and of […] in a specification of _arguments. */
static void print_explanation(const char *text)
{
  for (; *text; text++)
    if (*text == '\'')
      printf("'\\''");
    else
      printf("%s%c", strchr("[]:\\", *text) ? "\\" : "", *text);
}

/* `before`: which others it excludes; `name`: with its dashes; `joins`: how its value may follow. */
static void print_specification(const struct option_row *row, const char *before, const char *name, const char *joins)
{
  enum value value = value_of(row);
  bool valued = value != VALUE_NONE && value != VALUE_SWITCH;
  printf(" \\\n  '%s%s%s[", before, name, valued ? joins : "");
  print_explanation(row->help);
  printf("]");
  if (valued) {
    printf(":");
    print_explanation(row->placeholder);
    printf(":");
  }
  switch (value) {
  case VALUE_WORDS:
    printf("(");
    print_words(row);
    printf(")");
    break;
  case VALUE_DIRECTORIES:
    printf("_files -/");
    break;
  case VALUE_FILES:
    printf("_files");
    break;
  case VALUE_TEXT:
    printf(" ");
    break;
  case VALUE_NONE:
  case VALUE_SWITCH:
    break;
  }
  printf("'");
}

static void print_option(const struct option_row *row)
{
  char before[100] = "", name[80], letter[] = {'-', row->letter, '\0'};
  snprintf(name, sizeof name, "--%s", row->flag);
  if (row->kind == OPTION_TYPES)
    snprintf(before, sizeof before, "*"); /* may be repeated */
  else if (row->letter)
    snprintf(before, sizeof before, "(%s %s)", letter, name);
  print_specification(row, before, name, "=");
  if (row->letter)
    print_specification(row, before, letter, "+");
}

static const char zsh_command[] = "local -i dashes=${words[(i)--]}\n"
                                  "if (( CURRENT > dashes )); then\n"
                                  "  shift dashes words\n"
                                  "  (( CURRENT -= dashes ))\n"
                                  "  _normal\n"
                                  "  return\n"
                                  "fi\n\n";

static void print_zsh(enum config_program program)
{
  const char *name = config_program_name(program);
  printf("#compdef %s\n# zsh completion of %s.\n\n", name, name);
  if (takes_command(program))
    printf("%s", zsh_command);
  printf("_arguments -s -S");
  for (const struct option_row *row = config_options; row->flag; row++)
    if (option_taken(row, program))
      print_option(row);
  if (takes_files(program))
    printf(" \\\n  '*:FILE:_files'");
  if (takes_command(program))
    printf(" \\\n  '*:NAME: '");
  printf("\n");
}

int main(int argc, char **argv)
{
  bool bash = argc == 3 && strcmp(argv[1], "bash") == 0, zsh = argc == 3 && strcmp(argv[1], "zsh") == 0;
  for (enum config_program program = 0; (bash || zsh) && program < CONFIG_PROGRAMS; program++)
    if (strcmp(argv[2], config_program_name(program)) == 0) {
      if (bash)
        print_bash(program);
      else
        print_zsh(program);
      return fflush(stdout) == 0 ? EXIT_DONE : EXIT_FAILED;
    }
  fprintf(stderr, "usage: config_completion bash|zsh PROGRAM\n");
  return EXIT_USAGE;
}
