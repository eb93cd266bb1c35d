/* config: files, secrets, help, and what is printed. */
#include "config_fixture.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- files ---- */

CONFIG_TEST(test_file_errors)
{
  static const struct {
    const char *text, *says;
  } wrong[] = {
      {"lease = 3s\nleas = 4s\n", ":2: leas: no such option"},        {"lease\n", ":1: takes lines of the form"},
      {"\n\n[worker]\nlease = 3s\n", ":4: lease: is in a [section]"}, {"lease = 3s\nlease = 4s\n", ":2: lease: already set in line 1"},
      {"help = true\n", ":1: help: only on the command line"},        {"config = x\n", ":1: config: only on the command line"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--config", (char *)file_with("w.ini", wrong[i].text)), "w.ini", wrong[i].says);
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--config", (char *)file_with("w.ini", "\nlease = 5\n")), "--lease: got \"5\"", "w.ini:2)");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--config=/nowhere"), "/nowhere", "No such file");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--config", folder), folder, "directory");
  assert_int_equal(LOAD(CONFIG_STATUS, "--config", (char *)file_with("w.ini", "lease = 3s\nmember = a:1\n")), CONFIG_RUN);
}

CONFIG_TEST(test_long_line)
{
  char line[300] = "uri = mongodb://";
  size_t used = strlen(line);
  memset(line + used, 'h', sizeof line - used);
  strcpy(line + 198, "\npoll = 3s\n");
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "--config", (char *)file_with("l.ini", line)), CONFIG_RUN);
  assert_int_equal(strlen(config.uri), 198 - strlen("uri = "));
  assert_int_equal(config.poll_ms, 3000);
  memset(line + used, 'h', sizeof line - used);
  strcpy(line + 199, "\npoll = 3s\n");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--config", (char *)file_with("l.ini", line)), "l.ini:1: longer than 198 bytes", "uri-file");
  strcpy(line + 198, "");
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "--config", (char *)file_with("l.ini", line)), CONFIG_RUN);
}

/* ---- secrets ---- */

CONFIG_TEST(test_redact)
{
  static const struct {
    const char *uri, *shown;
  } cases[] = {
      {"mongodb://127.0.0.1:27017", "mongodb://127.0.0.1:27017"},
      {"mongodb://h1:1,h2:2/db?replicaSet=rs0&w=majority", "mongodb://h1:1,h2:2/db?replicaSet=rs0&w=majority"},
      {"mongodb://[::1]:27017/", "mongodb://[::1]:27017/"},
      {"mongodb://%2Ftmp%2Fmongodb-27017.sock", "mongodb://%2Ftmp%2Fmongodb-27017.sock"},
      {"mongodb://user:SECRET@h/db", "mongodb://user:***@h/db"},
      {"mongodb+srv://user:SECRET@h", "mongodb+srv://user:***@h"},
      {"mongodb://user@h", "mongodb://user@h"},
      {"mongodb://user:SEC@RET@h", "mongodb://user:***@h"},
      {"mongodb://user:SEC/R@ET@h/x", "mongodb://user:***@h/x"},
      {"mongodb://user:SEC?RET=x&@h/x", "mongodb://user:***@h/x"},
      {"mongodb://user%3aSECRET@h", "mongodb://***@h"},
      {"mongodb://user:SECRET%40h:27017/db", "mongodb://user:***"},
      {"mongodb://user:SECRET", "mongodb://user:***"},
      {"mongodb://user:/SECRET", "mongodb://user:***"},
      {"mongodb://user:12345678", "mongodb://user:***"},
      {"mongodb://user%3ASECRET%40h", "mongodb://user***"},
      {"user:SECRET@h", "user:***@h"},
      {"mongo://user:SECRET@h", "mongo:***@h"},
      {"user:SECRET://x@h", "user:***@h"},
      {"mongodb://h/?proxyPassword=SECRET&tls=true", "mongodb://h/?proxyPassword=***&tls=true"},
      {"mongodb://h?tlsCertificateKeyFilePassword=SECRET", "mongodb://h?tlsCertificateKeyFilePassword=***"},
      {"mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:SECRET", "mongodb://h/?authMechanismProperties=***"},
      {"mongodb://h/?appName=x&proxy%50assword=SECRET;SECRET", "mongodb://h/?appName=x&***;***"},
      {"mongodb://h/?replicaSet=rs0%26proxyPassword=SECRET", "mongodb://h/?replicaSet=***"},
      {"mongodb://u:SECRET@h/?appName=a@b&proxyPassword=SECRET", "mongodb://u:***@b***"},
      {"mongodb://h/?appName=a@b&proxyPassword=SECRET", "mongodb://***@b***"},
      {"mongodb://u:SECRET@", "mongodb://u:***@"},
      {"", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[200];
    config_uri_redact(cases[i].uri, text, sizeof text);
    assert_string_equal(text, cases[i].shown);
    char small[12];
    config_uri_redact(cases[i].uri, small, sizeof small);
    assert_int_equal(strncmp(small, cases[i].shown, sizeof small - 1), 0);
  }
}

/* ---- what is printed ---- */

static char *printed(void (*print)(FILE *))
{
  static char text[32768];
  memset(text, 0, sizeof text);
  FILE *stream = fmemopen(text, sizeof text, "w");
  assert_non_null(stream);
  print(stream);
  fclose(stream);
  return text;
}

static void print_loaded(FILE *out)
{
  config_print(&config, out);
}

CONFIG_TEST(test_print)
{
  setenv("PAWL_POLL", "2s", 1);
  char *file = (char *)file_with("p.ini", "retry = 5s\n");
  assert_int_equal(LOAD(CONFIG_WORKER, "--print-config", "--type=t,u", "--config", file, "--uri=mongodb://u:SECRET@h", "--exit-when-empty"),
                   CONFIG_PRINT);
  const char *text = printed(print_loaded);
  assert_contains(text, "lease = 30s  ; default\n");
  assert_contains(text, "poll = 2s  ; PAWL_POLL\n");
  assert_contains(text, "p.ini:1\n");
  assert_contains(text, "type = t,u  ; command line\n");
  assert_contains(text, "uri = mongodb://u:***@h  ; command line\n");
  assert_contains(text, "stall = 90s  ; 3 leases\n");
  assert_contains(text, "linger = 0s  ; default with exit-when-empty\n");
  assert_contains(text, "\ndb = pawl  ; default\n");
  assert_lacks(text, "SECRET");
}

/* The resulting database, whatever source names it; nothing of a URI that cannot be parsed. */
CONFIG_TEST(test_print_db)
{
  static const struct {
    const char *uri, *shown;
  } cases[] = {
      {"mongodb://h", "db = pawl  ; default\n"},
      {"mongodb://h/", "db = pawl  ; default\n"},
      {"mongodb://h?tls=true", "db = pawl  ; default\n"},
      {"mongodb://u:SECRET@h:1,[::1]:2/other?appName=a@b", "db = other  ; the URI\n"},
      {"mongodb+srv://h/other-1_b", "db = other-1_b  ; the URI\n"},
      {"mongodb://u:SECRET%40h:27017/db", "; db is not set\n"},
      {"mongodb://u:/SECRET", "; db is not set\n"},
      {"mongodb://u:SEC?RET@h/db", "; db is not set\n"},
      {"mongodb://h/a%62c", "; db is not set\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(LOAD(CONFIG_STATUS, "--print-config", "--uri", (char *)cases[i].uri), CONFIG_PRINT);
    const char *text = printed(print_loaded);
    assert_contains(text, cases[i].shown);
    assert_lacks(text, "SECRET");
    assert_null(config.db);
  }
  assert_int_equal(LOAD(CONFIG_STATUS, "--print-config", "--uri=mongodb://h/other", "--db=mine"), CONFIG_PRINT);
  assert_contains(printed(print_loaded), "db = mine  ; command line\n");
  assert_int_equal(LOAD(CONFIG_DUMP, "--print-config", "x"), CONFIG_PRINT);
  assert_contains(printed(print_loaded), "; db is not set\n");
}

static enum config_program helped;

static void print_help(FILE *out)
{
  config_help(helped, out);
}

CONFIG_TEST(test_help)
{
  for (helped = 0; helped < (enum config_program)CONFIG_PROGRAMS; helped++) {
    const char *text = printed(print_help);
    assert_contains(text, config_program_name(helped));
    assert_contains(text, "PAWL_");
    for (int i = 0; config_options[i].flag; i++) {
      char flag[80];
      snprintf(flag, sizeof flag, " --%s%s", config_options[i].flag, config_options[i].placeholder ? " " : "");
      if (option_taken(&config_options[i], helped))
        assert_contains(text, flag);
      for (int k = 0; option_taken(&config_options[i], helped) && config_options[i].choices[k]; k++)
        assert_contains(text, config_options[i].choices[k]);
      assert_int_equal(option_find(helped, config_options[i].flag) == i, option_taken(&config_options[i], helped));
    }
  }
}

CONFIG_TEST(test_begin)
{
  char out_text[20000] = "", err_text[2000] = "";
  FILE *out = fmemopen(out_text, sizeof out_text, "w"), *err = fmemopen(err_text, sizeof err_text, "w");
  int exit_code = -1;
  assert_false(config_begin(&config, CONFIG_WORKER, 2, (char *[]){"x", "--version", NULL}, out, err, &exit_code));
  assert_int_equal(exit_code, EXIT_DONE);
  assert_false(config_begin(&config, CONFIG_WORKER, 2, (char *[]){"x", "--lease=1", NULL}, out, err, &exit_code));
  assert_int_equal(exit_code, EXIT_USAGE);
  assert_true(config_begin(&config, CONFIG_WORKER, 2, (char *[]){"x", "--type=1", NULL}, out, err, &exit_code));
  fclose(out);
  fclose(err);
  assert_string_equal(out_text, "pawl-worker (pawl) " PAWL_VERSION "\n");
  assert_contains(err_text, "pawl-worker: --lease: got \"1\" (from command line): takes");
  assert_contains(err_text, "\nsee pawl-worker --help\n");
}
