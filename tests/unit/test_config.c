/* config: precedence, the errors of every kind, secrets, files, help. */
#include "config/config.h"
#include "config/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static struct config config;
static struct error error;
static char folder[] = "/tmp/test_config_XXXXXX";
static char path[200];

#define LOAD(program, ...) load(program, (char *[]){"x", ##__VA_ARGS__, NULL})

static enum config_status load(enum config_program program, char **argv)
{
  int argc = 0;
  while (argv[argc])
    argc++;
  config_free(&config);
  error.text[0] = '\0';
  return config_load(&config, program, argc, argv, &error);
}

static const char *file_with(const char *name, const char *text)
{
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *stream = fopen(path, "w");
  assert_non_null(stream);
  fputs(text, stream);
  fclose(stream);
  return path;
}

static void assert_contains(const char *text, const char *part)
{
  if (!strstr(text, part))
    fail_msg("\"%s\" is not in \"%s\"", part, text);
}

static void assert_lacks(const char *text, const char *part)
{
  if (strstr(text, part))
    fail_msg("\"%s\" is in \"%s\"", part, text);
}

/* The options are wrong, and the message contains each part. */
static void assert_wrong(enum config_status status, const char *part, const char *other)
{
  assert_int_equal(status, CONFIG_WRONG);
  assert_contains(error.text, part);
  assert_contains(error.text, other);
  assert_lacks(error.text, "\n");
}

static int setup_folder(void **state)
{
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
  (void)state;
  char command[100];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

static int clear(void **state)
{
  (void)state;
  config_free(&config);
  for (int i = 0; config_options[i].flag; i++) {
    char name[80];
    option_environment(&config_options[i], name, sizeof name);
    unsetenv(name);
  }
  return 0;
}

/* ---- unknown names ---- */

static void assert_nearest(const char *given, const char *flag)
{
  const struct option_row *row = option_nearest(~0u, given, strlen(given));
  if (flag == NULL ? row != NULL : row == NULL || strcmp(row->flag, flag) != 0)
    fail_msg("%s: %s", given, row ? row->flag : "none");
}

static void test_nearest(void **state)
{
  (void)state;
  assert_nearest("leese", "lease");
  assert_nearest("LAESE", "lease");
  assert_nearest("BATCH_MESSAGE", "batch-messages");
  assert_nearest("url", "uri");
  assert_nearest("types", "type");
  assert_nearest("LEASE_TIME", "lease");
  assert_nearest("qqqqqqq", NULL);
  assert_nearest("", NULL);
  assert_wrong(LOAD(CONFIG_WORKER, "--leese=1s"), "--leese: no such option", "did you mean --lease?");
  assert_wrong(LOAD(CONFIG_STATUS, "--leese=1s"), "--leese: no such option", "");
  assert_lacks(error.text, "did you mean");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--config", (char *)file_with("n.ini", "leese = 1s\n")), "n.ini:1: leese",
               "did you mean lease?");
}

static const char *warned(void)
{
  static char said[4000];
  FILE *stream = fmemopen(said, sizeof said, "w");
  int code;
  char *argv[] = {"x", "--type=t", "--print-config", NULL};
  FILE *none = fopen("/dev/null", "w");
  config_free(&config);
  said[0] = '\0';
  assert_false(config_begin(&config, CONFIG_WORKER, 3, argv, none, stream, &code));
  assert_int_equal(code, 0);
  fclose(none);
  fclose(stream);
  return said;
}

static void test_unknown_variables(void **state)
{
  (void)state;
  static const char *const known[] = {"PAWL_LOCK_EPOCH",           "PAWL_SERVICE_HOST", "PAWL_PORT_9464_TCP_ADDR",
                                      "PAWL_METRICS_SERVICE_PORT", "PAWL_MEMBER",       "PAWL_TEST_X"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    setenv(known[i], "x", 1);
  setenv("PAWL_EMPTY", "", 1);
  assert_string_equal(warned(), "");
  setenv("PAWL_HEALTH_PORT", "tcp://10.0.0.1:9464", 1); /* Kubernetes sets it for a Service named pawl-health */
  assert_string_equal(warned(), "");
  setenv("PAWL_HEALTH_PORT", "9464", 1);
  assert_contains(warned(), "PAWL_HEALTH_PORT is set, and is not an option of pawl");
  unsetenv("PAWL_HEALTH_PORT");
  setenv("PAWL_LEESE", "secret", 1);
  assert_contains(warned(), "PAWL_LEESE is set, and is not an option of pawl: did you mean PAWL_LEASE?\n");
  assert_lacks(warned(), "secret");
  setenv("PAWL_LOG_FORMAT", "json", 1);
  assert_contains(warned(), "\"level\" : \"warn\", \"program\" : \"pawl-worker\", \"event\" : \"config\"");
  setenv("PAWL_LOG_LEVEL", "error", 1);
  assert_string_equal(warned(), "");
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    unsetenv(known[i]);
  unsetenv("PAWL_EMPTY");
  unsetenv("PAWL_LEESE");
}

/* Programs share variable and file, so one program must not refuse a value that another takes. */
static void test_shared_options_take_the_same(void **state)
{
  (void)state;
  for (const struct option_row *one = config_options; one->flag; one++)
    for (const struct option_row *other = one + 1; other->flag; other++)
      if (strcmp(one->flag, other->flag) == 0 && (one->kind != other->kind || one->min != other->min || one->max != other->max ||
                                                  !one->none != !other->none || one->none_value != other->none_value))
        fail_msg("--%s takes different values in different programs", one->flag);
  assert_int_equal(LOAD(CONFIG_SETUP, "--timeout=none"), CONFIG_RUN);
  assert_int_equal(config.timeout_ms, -1);
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "--timeout=0s"), CONFIG_RUN);
  assert_int_equal(config.timeout_ms, 0);
}

/* ---- precedence ---- */

static void test_defaults(void **state)
{
  (void)state;
  assert_int_equal(LOAD(CONFIG_WORKER, "--type", "t1"), CONFIG_RUN);
  assert_string_equal(config.uri, "mongodb://127.0.0.1:27017");
  assert_false(config.uri_given);
  assert_null(config.db);
  assert_string_equal(config.dir, ".");
  assert_int_equal(config.lease_ms, 30000);
  assert_int_equal(config.retry_ms, 100);
  assert_int_equal(config.poll_ms, 100);
  assert_int_equal(config.linger_ms, 5000);
  assert_false(config.linger_given);
  assert_int_equal(config.stall_ms, 90000);
  assert_int_equal(config.timeout_ms, -1);
  assert_int_equal(config.batch_messages, 10000);
  assert_int_equal(config.batch_bytes, 8 << 20);
  assert_int_equal(config.segment_bytes, 0);
  assert_int_equal(config.file_mode, 0640);
  assert_int_equal(config.log_level, CONFIG_LOG_INFO);
  assert_int_equal(config.log_format, CONFIG_FORMAT_TEXT);
  assert_false(config.codec_zstd);
  assert_int_equal(config.argument_count, 0);
}

static void test_bundle(void **state)
{
  (void)state;
  assert_int_equal(LOAD(CONFIG_ENQUEUE, "--type", "t1"), CONFIG_RUN);
  assert_int_equal(config.bundle, 0);
  assert_int_equal(LOAD(CONFIG_ENQUEUE, "--type", "t1", "--bundle", "100"), CONFIG_RUN);
  assert_int_equal(config.bundle, 100);
  assert_int_equal(LOAD(CONFIG_ENQUEUE, "--type", "t1", "--bundle=auto"), CONFIG_RUN);
  assert_int_equal(config.bundle, CONFIG_BUNDLE_AUTO);
  assert_wrong(LOAD(CONFIG_ENQUEUE, "--type", "t1", "--bundle", "-1"), "--bundle: got \"-1\"", "from 0 to 100000, or auto");
  assert_wrong(LOAD(CONFIG_WORKER, "--type", "t1", "--bundle", "5"), "--bundle: ", "");
}

static void test_precedence(void **state)
{
  (void)state;
  char *file = (char *)file_with("a.ini", "lease = 2s\npoll=3s\n# comment\nretry = 4s\n");
  setenv("PAWL_CONFIG", "/nowhere", 1);
  setenv("PAWL_POLL", "5s", 1);
  setenv("PAWL_RETRY", "6s", 1);
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t1", "--config", file, "--retry=7s", "--retry", "8s"), CONFIG_RUN);
  assert_int_equal(config.lease_ms, 2000);
  assert_int_equal(config.poll_ms, 5000);
  assert_int_equal(config.retry_ms, 8000);
  assert_int_equal(config.linger_ms, 5000);
}

static void test_environment(void **state)
{
  (void)state;
  setenv("PAWL_LEASE", "", 1);
  setenv("PAWL_PORT", "tcp://10.0.0.1", 1);
  setenv("PAWL_HELP", "1", 1);
  setenv("PAWL_EXIT_WHEN_EMPTY", "yes", 1);
  setenv("PAWL_CONFIG", file_with("b.ini", "type = t9\nfile-mode = 0600"), 1);
  assert_int_equal(LOAD(CONFIG_WORKER), CONFIG_RUN);
  unsetenv("PAWL_PORT");
  assert_int_equal(config.lease_ms, 30000);
  assert_true(config.exit_when_empty);
  assert_int_equal(config.linger_ms, 0);
  assert_string_equal(config.types[0], "t9");
  assert_int_equal(config.file_mode, 0600);
  assert_int_equal(LOAD(CONFIG_WORKER, "--exit-when-empty=false"), CONFIG_RUN);
  assert_false(config.exit_when_empty);
  assert_int_equal(LOAD(CONFIG_WORKER, "--linger", "2s"), CONFIG_RUN);
  assert_int_equal(config.linger_ms, 2000);
  assert_true(config.linger_given);
  setenv("PAWL_EXIT_WHEN_EMPTY", "perhaps", 1);
  assert_wrong(LOAD(CONFIG_WORKER), "--exit-when-empty: got \"perhaps\" (from PAWL_EXIT_WHEN_EMPTY)", "true or false");
}

static void test_types(void **state)
{
  (void)state;
  assert_int_equal(LOAD(CONFIG_WORKER, "--type", "t1", "--type=t2,t1", "--type", "t3"), CONFIG_RUN);
  assert_int_equal(config.type_count, 3);
  assert_string_equal(config.types[1], "t2");
  assert_string_equal(config.types[2], "t3");
  char *file = (char *)file_with("c.ini", "type = a , b\ntype = c\n");
  assert_int_equal(LOAD(CONFIG_WORKER, "--config", file), CONFIG_RUN);
  assert_int_equal(config.type_count, 3);
  assert_string_equal(config.types[0], "a");
  setenv("PAWL_TYPE", "d,e", 1);
  assert_int_equal(LOAD(CONFIG_WORKER, "--config", file), CONFIG_RUN);
  assert_int_equal(config.type_count, 2);
  assert_int_equal(LOAD(CONFIG_WORKER, "--config", file, "--type=f"), CONFIG_RUN);
  assert_int_equal(config.type_count, 1);
  setenv("PAWL_TYPE", "d,,e", 1);
  assert_wrong(LOAD(CONFIG_WORKER), "--type: got \"d,,e\" (from PAWL_TYPE)", "1 to 128 bytes");
  unsetenv("PAWL_TYPE");
  assert_wrong(LOAD(CONFIG_WORKER), "--type", "at least one");
  assert_wrong(LOAD(CONFIG_WORKER, "--type", ""), "--type: got \"\"", "types");
  assert_wrong(LOAD(CONFIG_WORKER, "--type", "a/b"), "a/b", "types");
  assert_wrong(LOAD(CONFIG_WORKER, "--type", ".a"), ".a", "types");
  char name[200];
  memset(name, 'x', sizeof name);
  name[TYPE_BYTES_MAX] = '\0';
  assert_int_equal(LOAD(CONFIG_WORKER, "--type", name), CONFIG_RUN);
  name[TYPE_BYTES_MAX] = 'x';
  name[TYPE_BYTES_MAX + 1] = '\0';
  assert_wrong(LOAD(CONFIG_WORKER, "--type", name), "xxx", "types");
  assert_int_equal(LOAD(CONFIG_STATUS), CONFIG_RUN);
}

static void test_uri_file(void **state)
{
  (void)state;
  static const char *const good[] = {
      "mongodb://u:secret@h/db",
      "mongodb://u:secret@h/db\n\n",
      "\r\n# the shop's\r\n\r\nmongodb://u:secret@h/db\r\n\r\n",
      "\xEF\xBB\xBF# made by an editor on Windows\r\n  mongodb://u:secret@h/db \t\r\n; the end",
      "\xEF\xBB\xBFmongodb://u:secret@h/db\r\n",
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    assert_int_equal(LOAD(CONFIG_STATUS, "--uri-file", (char *)file_with("uri", good[i])), CONFIG_RUN);
    assert_string_equal(config.uri, "mongodb://u:secret@h/db");
  }
  assert_wrong(LOAD(CONFIG_STATUS, "--uri-file", (char *)file_with("uri", "mongodb://h\n\nmongodb://u:secret@i\n")), "more than one line",
               "line 3");
  assert_lacks(error.text, "secret");
  assert_wrong(LOAD(CONFIG_STATUS, "--uri-file", (char *)file_with("uri", "# nothing\n\n")), "got no URI", "--uri-file");
  assert_wrong(LOAD(CONFIG_STATUS, "--uri-file", (char *)file_with("uri", "")), "got no URI", "--uri-file");
}

static void test_uri(void **state)
{
  (void)state;
  char *file = strdup(file_with("uri", "mongodb://u:secret@h/db\r\n"));
  assert_int_equal(LOAD(CONFIG_STATUS, "--uri-file", file), CONFIG_RUN);
  assert_string_equal(config.uri, "mongodb://u:secret@h/db");
  assert_true(config.uri_given);
  assert_wrong(LOAD(CONFIG_STATUS, "--uri-file", file, "--uri", "mongodb://h"), "both", "--uri-file");
  setenv("PAWL_URI", "mongodb://e", 1);
  assert_int_equal(LOAD(CONFIG_STATUS, "--uri-file", file), CONFIG_RUN);
  assert_string_equal(config.uri, "mongodb://u:secret@h/db");
  setenv("PAWL_URI_FILE", "/nowhere", 1);
  assert_int_equal(LOAD(CONFIG_STATUS, "--uri", "mongodb://f"), CONFIG_RUN);
  assert_string_equal(config.uri, "mongodb://f");
  assert_wrong(LOAD(CONFIG_STATUS), "both", "PAWL_URI_FILE");
  unsetenv("PAWL_URI");
  assert_wrong(LOAD(CONFIG_STATUS), "/nowhere", "No such file");
  unsetenv("PAWL_URI_FILE");
  assert_wrong(LOAD(CONFIG_STATUS, "--uri", "mongo://u:secret@h"), "--uri", "takes mongodb://");
  assert_lacks(error.text, "secret");
  assert_wrong(LOAD(CONFIG_STATUS, "--urii=mongodb://u:secret@h"), "--urii", "no such option");
  assert_lacks(error.text, "secret");
  assert_wrong(LOAD(CONFIG_STATUS, "mongodb://u:secret@h"), "u:***@h", "options only");
  assert_wrong(LOAD(CONFIG_STATUS, "--uri", ""), "--uri", "takes");
  assert_wrong(LOAD(CONFIG_STATUS, "--db", "a.b"), "--db", "database name");
  free(file);
}

/* A queue in such a database would be replicated with the users, or not at all. */
static void test_databases_of_mongodb(void **state)
{
  (void)state;
  static const char *const names[] = {"admin", "local", "config", "Admin"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char uri[80], said[80];
    snprintf(said, sizeof said, "got \"%s\" (from command line)", names[i]);
    assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--db", (char *)names[i]), said, "and not MongoDB's own admin, local and config");
    snprintf(uri, sizeof uri, "mongodb://u:SECRET@h,i:1/%s?appName=a@b", names[i]);
    snprintf(said, sizeof said, "got the database \"%s\" (from command line)", names[i]);
    assert_wrong(LOAD(CONFIG_DUMP, "--uri", uri, "x"), said, "--db");
    assert_lacks(error.text, "SECRET");
    assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "--uri", uri, "--db=mine"), CONFIG_RUN);
    assert_string_equal(config.db, "mine");
  }
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "--db=administration", "--uri=mongodb://h/?authSource=admin"), CONFIG_RUN);
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "--uri=mongodb://h/localhost"), CONFIG_RUN);
}

/* ---- wrong values ---- */

static void test_durations(void **state)
{
  (void)state;
  static const char *const wrong[] = {
      "10", "",      "-1s", "+1s", " 1s", "1s ", "1.5s", "1sec", "1S", "999ms", "61m", "99999999999999999999s", "9223372036854775807h",
      "s",  "0x10s", "1d"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--lease", (char *)wrong[i]), "--lease: got \"",
                 "takes a duration with its unit from 1s to 1h, e.g. ");
  setenv("PAWL_LEASE", "10", 1);
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t"), "--lease: got \"10\" (from PAWL_LEASE)", "with its unit");
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "--lease=1h", "--poll=250ms", "--linger=0s", "--timeout=2m"), CONFIG_RUN);
  assert_int_equal(config.lease_ms, 3600000);
  assert_int_equal(config.poll_ms, 250);
  assert_int_equal(config.linger_ms, 0);
  assert_true(config.linger_given);
  assert_int_equal(config.stall_ms, 3 * 3600000);
  assert_int_equal(config.timeout_ms, 120000);
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "--lease=1s", "--timeout=none"), CONFIG_RUN);
  assert_int_equal(config.stall_ms, 60000);
}

static void test_bytes(void **state)
{
  (void)state;
  static const char *const wrong[] = {"",     "-1", "1kb", "8 MiB", "1023", "65MiB", "1e4", "9223372036854775808", "9007199254740993KiB",
                                      "never"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--batch-bytes", (char *)wrong[i]), "--batch-bytes", "takes a size from 1KiB to 64MiB");
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "--batch-bytes=65536", "--segment-bytes=2GiB"), CONFIG_RUN);
  assert_int_equal(config.batch_bytes, 65536);
  assert_int_equal(config.segment_bytes, 2ll << 30);
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "--batch-bytes=64MiB", "--segment-bytes=never"), CONFIG_RUN);
  assert_int_equal(config.batch_bytes, 64 << 20);
  assert_int_equal(config.segment_bytes, 0);
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--segment-bytes=65535"), "64KiB or more", "or never");
}

static void test_other_kinds(void **state)
{
  (void)state;
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--batch-messages=0"), "got \"0\"", "from 1 to 1000000");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--batch-messages=1000001"), "1000001", "from 1 to 1000000");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--batch-messages=1k"), "1k", "whole number");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--file-mode=0888"), "0888", "octal");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--file-mode=0440"), "0440", "owner");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--file-mode=1777"), "1777", "0600 to 0777");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--codec=gzip"), "gzip", "one of plain, zstd");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--log-level="), "--log-level: got \"\"", "one of error, warn, info, debug");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--dir="), "--dir", "not empty");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--lease"), "--lease: got no value", "duration");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--dir=a\nb", "--lease=a\nb"), "got \"a?b\"", "duration");
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "--codec=zstd", "-q", "--log-format=json"), CONFIG_RUN);
  assert_true(config.codec_zstd);
  assert_int_equal(config.log_level, CONFIG_LOG_ERROR);
  assert_int_equal(config.log_format, CONFIG_FORMAT_JSON);
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "-v"), CONFIG_RUN);
  assert_int_equal(config.log_level, CONFIG_LOG_DEBUG);
}

static void test_listen(void **state)
{
  (void)state;
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t"), CONFIG_RUN);
  assert_int_equal(config.listen.port, 0);
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "--listen=9464"), CONFIG_RUN);
  assert_int_equal(config.listen.port, 9464);
  assert_null(config.listen.host);
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "--listen=127.0.0.1:1"), CONFIG_RUN);
  assert_int_equal(config.listen.port, 1);
  assert_string_equal(config.listen.host, "127.0.0.1");
  setenv("PAWL_LISTEN", "[::1]:65535", 1);
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t"), CONFIG_RUN);
  assert_int_equal(config.listen.port, 65535);
  assert_string_equal(config.listen.host, "::1");
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "--listen=none"), CONFIG_RUN);
  assert_int_equal(config.listen.port, 0);
  static const char *const wrong[] = {"",
                                      "0",
                                      "65536",
                                      "x",
                                      ":9464",
                                      "9464:",
                                      "[::1]",
                                      "::1:9464",
                                      "[]:9464",
                                      "[:9464",
                                      "]:9464",
                                      "[::1]9464",
                                      "-1",
                                      "9464 ",
                                      "localhost:1",
                                      "1.2.3:4",
                                      "*:9464",
                                      "[1.2.3.4]:1",
                                      "[::1]x:9464",
                                      "x[::1]:1",
                                      "+1",
                                      "99999999999999999999"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--listen", (char *)wrong[i]), "--listen: got", "[::1]:9464");
}

static void test_health(void **state)
{
  (void)state;
  assert_wrong(LOAD(CONFIG_WORKER, "--health"), "--health", "--listen");
  assert_int_equal(LOAD(CONFIG_WORKER, "--health", "--listen=9464"), CONFIG_RUN);
  assert_true(config.health);
  assert_int_equal(config.type_count, 0);
  setenv("PAWL_HEALTH", "true", 1); /* an error: a worker with it in its environment would never work */
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t"), CONFIG_RUN);
  assert_false(config.health);
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--config", (char *)file_with("health", "health = true\n")), "health", "command line");
  assert_wrong(LOAD(CONFIG_STATUS, "--health"), "--health", "no such option");
}

static void test_flags(void **state)
{
  (void)state;
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--lin=3"), "--linger", "takes");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--l", "3s"), "--l: could be", "--lease, --linger");
  assert_wrong(LOAD(CONFIG_WORKER, "--no-such=3s"), "--no-such: no such option", "");
  assert_wrong(LOAD(CONFIG_WORKER, "-x"), "-x: no such option", "");
  assert_wrong(LOAD(CONFIG_WORKER, "--help=yes"), "--help: takes no value", "");
  assert_wrong(LOAD(CONFIG_WORKER, "t1"), "got \"t1\"", "--type");
  assert_wrong(LOAD(CONFIG_ENQUEUE, "--lease=3s"), "--lease: no such option", "");
  assert_int_equal(LOAD(CONFIG_WORKER, "-h", "--no-such"), CONFIG_HELP);
  assert_int_equal(LOAD(CONFIG_WORKER, "-V"), CONFIG_VERSION);
  assert_int_equal(LOAD(CONFIG_ENQUEUE, "a", "--type", "t", "b", "--", "--c"), CONFIG_RUN);
  assert_int_equal(config.argument_count, 3);
  assert_string_equal(config.arguments[0], "a");
  assert_string_equal(config.arguments[2], "--c");
  assert_null(config.arguments[3]);
  assert_int_equal(LOAD(CONFIG_DUMP, "-fn3", "x.bin"), CONFIG_RUN);
  assert_true(config.follow);
  assert_int_equal(config.limit, 3);
}

static void test_lock(void **state)
{
  (void)state;
  assert_int_equal(LOAD(CONFIG_LOCK, "--lease", "2s", "nightly", "-q", "--", "cp", "-v", "--lease", "--", "x"), CONFIG_RUN);
  assert_string_equal(config.name, "nightly");
  assert_string_equal(config.command[0], "cp");
  assert_string_equal(config.command[3], "--");
  assert_string_equal(config.command[4], "x");
  assert_null(config.command[5]);
  assert_int_equal(config.lease_ms, 2000);
  assert_int_equal(config.timeout_ms, -1);
  assert_int_equal(config.log_level, CONFIG_LOG_ERROR);
  assert_int_equal(LOAD(CONFIG_LOCK, "n", "--timeout", "0s", "--", "x"), CONFIG_RUN);
  assert_int_equal(config.timeout_ms, 0);
  assert_wrong(LOAD(CONFIG_LOCK), "the NAME of a lock is missing", "NAME -- COMMAND");
  assert_wrong(LOAD(CONFIG_LOCK, "--", "x"), "the NAME of a lock is missing", "");
  assert_wrong(LOAD(CONFIG_LOCK, "n"), "a command is missing after the NAME", "NAME -- COMMAND");
  assert_wrong(LOAD(CONFIG_LOCK, "n", "--"), "a command is missing after the NAME", "");
  assert_wrong(LOAD(CONFIG_LOCK, "n", "rm", "--", "x"), "got \"rm\" after the NAME", "NAME -- COMMAND");
  assert_wrong(LOAD(CONFIG_LOCK, "n", "rm", "-r", "x"), "-r: no such option", "");
  assert_wrong(LOAD(CONFIG_LOCK, ".n", "--", "x"), "got the NAME \".n\"", "1 to 128 bytes");
  assert_wrong(LOAD(CONFIG_LOCK, "mongodb://u:secret@h", "--", "x"), "got the NAME \"mongodb://u:***@h\"", "");
  assert_wrong(LOAD(CONFIG_LOCK, "root:secret@h", "--", "x"), "got the NAME \"root:***@h\"", "");
  static char *const names[] = {"nightly backup",
                                "a:b",
                                "job#1",
                                "gr\xC3\xB6\xC3\x9F"
                                "e",
                                "a/b",
                                "50%",
                                "x@y",
                                "mongodb backup",
                                "nightly!"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char shown[60];
    snprintf(shown, sizeof shown, "got the NAME \"%s\":", names[i]);
    assert_wrong(LOAD(CONFIG_LOCK, names[i], "--", "x"), shown, "1 to 128 bytes");
  }
  assert_wrong(LOAD(CONFIG_LOCK, "n", "--log-format=json", "--", "x"), "--log-format: no such option", "");
  assert_int_equal(LOAD(CONFIG_LOCK, "-h", "--", "x"), CONFIG_HELP);
}

static void test_dump(void **state)
{
  (void)state;
  assert_int_equal(LOAD(CONFIG_DUMP), CONFIG_RUN);
  assert_string_equal(config.format, "relaxed");
  assert_int_equal(config.from_seq, -1);
  assert_int_equal(config.to_seq, -1);
  assert_int_equal(config.limit, -1);
  assert_int_equal(config.tail, -1);
  assert_null(config.dir);
  assert_null(config.since);
  assert_int_equal(config.separator_bytes, 1);
  assert_string_equal(config.separator, "\n");
  assert_int_equal(LOAD(CONFIG_DUMP, "--separator=a\\0\\\\", "--since=15m", "--until=2024-05-01T12:00:00Z", "--from-seq=5"), CONFIG_RUN);
  assert_int_equal(config.separator_bytes, 3);
  assert_memory_equal(config.separator, "a\0\\", 3);
  assert_string_equal(config.since, "15m");
  assert_int_equal(config.from_seq, 5);
  assert_int_equal(LOAD(CONFIG_DUMP, "--separator="), CONFIG_RUN);
  assert_int_equal(config.separator_bytes, 0);
  assert_wrong(LOAD(CONFIG_DUMP, "--separator=a\\"), "--separator", "backslash");
  assert_wrong(LOAD(CONFIG_DUMP, "--separator=\\x"), "--separator", "backslash");
  assert_wrong(LOAD(CONFIG_DUMP, "--from-seq=0"), "--from-seq", "1 or more");
  assert_wrong(LOAD(CONFIG_DUMP, "--limit=-1"), "--limit", "0 or more, or none");
  assert_wrong(LOAD(CONFIG_DUMP, "--since=yesterday"), "--since", "RFC 3339");
  assert_wrong(LOAD(CONFIG_DUMP, "--format=xml"), "--format", "relaxed, canonical");
}

static void test_times(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int64_t us;
  } right[] = {{"1970-01-01T00:00:00Z", 0},
               {"1970-01-01t00:00:01.5z", 1500000},
               {"2000-02-29 12:00:00+01:00", 951822000000000},
               {"2000-02-29T12:00:00.1234567-00:30", 951827400123456},
               {"1969-12-31T23:59:59Z", -1000000},
               {"2016-12-31T23:59:60Z", 1483228800000000},
               {"2s", 8000000}};
  static const char *const wrong[] = {"",
                                      "10",
                                      "2001-02-29T00:00:00Z",
                                      "2001-00-01T00:00:00Z",
                                      "2001-01-00T00:00:00Z",
                                      "2001-13-01T00:00:00Z",
                                      "2001-01-01",
                                      "2001-01-01T00:00:00",
                                      "2001-01-01T24:00:00Z",
                                      "2001-01-01T00:00:00.Z",
                                      "2001-01-01T00:00:00Zx",
                                      "2001-01-01T00:00:00+1:00",
                                      "9223372036854775807ms"};
  int64_t us;
  for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
    assert_true(config_parse_time(right[i].text, 10000000, &us));
    assert_int_equal(us, right[i].us);
  }
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    if (config_parse_time(wrong[i], 10000000, &us))
      fail_msg("%s was taken for a time", wrong[i]);
}

/* ---- files ---- */

static void test_file_errors(void **state)
{
  (void)state;
  static const struct {
    const char *text, *says;
  } wrong[] = {{"lease = 3s\nleas = 4s\n", ":2: leas: no such option"},
               {"lease\n", ":1: takes lines of the form"},
               {"\n\n[worker]\nlease = 3s\n", ":4: lease: is in a [section]"},
               {"lease = 3s\nlease = 4s\n", ":2: lease: already set in line 1"},
               {"help = true\n", ":1: help: only on the command line"},
               {"config = x\n", ":1: config: only on the command line"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--config", (char *)file_with("w.ini", wrong[i].text)), "w.ini", wrong[i].says);
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--config", (char *)file_with("w.ini", "\nlease = 5\n")), "--lease: got \"5\"", "w.ini:2)");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--config=/nowhere"), "/nowhere", "No such file");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=t", "--config", folder), folder, "directory");
  assert_int_equal(LOAD(CONFIG_STATUS, "--config", (char *)file_with("w.ini", "lease = 3s\nmember = a:1\n")), CONFIG_RUN);
}

static void test_long_line(void **state)
{
  (void)state;
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

static void test_redact(void **state)
{
  (void)state;
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

static void test_print(void **state)
{
  (void)state;
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
static void test_print_db(void **state)
{
  (void)state;
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

static void test_help(void **state)
{
  (void)state;
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

static void test_begin(void **state)
{
  (void)state;
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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_nearest, clear),
      cmocka_unit_test_teardown(test_unknown_variables, clear),
      cmocka_unit_test_teardown(test_shared_options_take_the_same, clear),
      cmocka_unit_test_teardown(test_defaults, clear),
      cmocka_unit_test_teardown(test_precedence, clear),
      cmocka_unit_test_teardown(test_bundle, clear),
      cmocka_unit_test_teardown(test_lock, clear),
      cmocka_unit_test_teardown(test_environment, clear),
      cmocka_unit_test_teardown(test_types, clear),
      cmocka_unit_test_teardown(test_uri, clear),
      cmocka_unit_test_teardown(test_uri_file, clear),
      cmocka_unit_test_teardown(test_durations, clear),
      cmocka_unit_test_teardown(test_bytes, clear),
      cmocka_unit_test_teardown(test_other_kinds, clear),
      cmocka_unit_test_teardown(test_listen, clear),
      cmocka_unit_test_teardown(test_health, clear),
      cmocka_unit_test_teardown(test_flags, clear),
      cmocka_unit_test_teardown(test_dump, clear),
      cmocka_unit_test_teardown(test_times, clear),
      cmocka_unit_test_teardown(test_file_errors, clear),
      cmocka_unit_test_teardown(test_long_line, clear),
      cmocka_unit_test_teardown(test_redact, clear),
      cmocka_unit_test_teardown(test_print, clear),
      cmocka_unit_test_teardown(test_help, clear),
      cmocka_unit_test_teardown(test_begin, clear),
      cmocka_unit_test_teardown(test_databases_of_mongodb, clear),
      cmocka_unit_test_teardown(test_print_db, clear),
  };
  return cmocka_run_group_tests(tests, setup_folder, remove_folder);
}
