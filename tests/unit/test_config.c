/* config: names that are unknown, and which source of an option counts. */
#include "config_fixture.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- unknown names ---- */

static void assert_nearest(const char *given, const char *flag)
{
  const struct option_row *row = option_nearest(~0u, given, strlen(given));
  if (flag == NULL ? row != NULL : row == NULL || strcmp(row->flag, flag) != 0)
    fail_msg("%s: %s", given, row ? row->flag : "none");
}

CONFIG_TEST(test_nearest)
{
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

CONFIG_TEST(test_unknown_variables)
{
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
CONFIG_TEST(test_shared_options_take_the_same)
{
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

CONFIG_TEST(test_defaults)
{
  assert_int_equal(LOAD(CONFIG_WORKER, "--type", "t1"), CONFIG_RUN);
  assert_string_equal(config.uri, "mongodb://127.0.0.1:27017");
  assert_false(config.uri_given);
  assert_null(config.db);
  assert_string_equal(config.dir, ".");
  assert_int_equal(config.lease_ms, 30000);
  assert_int_equal(config.retry_ms, 100);
  assert_int_equal(config.poll_ms, 100);
  assert_int_equal(config.linger_ms, 5000);
  assert_int_equal(config.stall_ms, 90000);
  assert_int_equal(config.timeout_ms, -1);
  assert_int_equal(config.batch_messages, 10000);
  assert_int_equal(config.batch_bytes, 8 << 20);
  assert_int_equal(config.segment_bytes, 0);
  assert_int_equal(config.file_mode, 0640);
  assert_int_equal(config.log_level, CONFIG_LOG_INFO);
  assert_int_equal(config.log_format, CONFIG_FORMAT_TEXT);
  assert_int_equal(config.codec, CONFIG_CODEC_PLAIN);
  assert_int_equal(config.argument_count, 0);
}

CONFIG_TEST(test_bundle)
{
  assert_int_equal(LOAD(CONFIG_ENQUEUE, "--type", "t1"), CONFIG_RUN);
  assert_int_equal(config.bundle, 0);
  assert_int_equal(LOAD(CONFIG_ENQUEUE, "--type", "t1", "--bundle", "100"), CONFIG_RUN);
  assert_int_equal(config.bundle, 100);
  assert_int_equal(LOAD(CONFIG_ENQUEUE, "--type", "t1", "--bundle=auto"), CONFIG_RUN);
  assert_int_equal(config.bundle, CONFIG_BUNDLE_AUTO);
  assert_wrong(LOAD(CONFIG_ENQUEUE, "--type", "t1", "--bundle", "-1"), "--bundle: got \"-1\"", "from 0 to 100000, or auto");
  assert_wrong(LOAD(CONFIG_WORKER, "--type", "t1", "--bundle", "5"), "--bundle: ", "");
}

CONFIG_TEST(test_precedence)
{
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

CONFIG_TEST(test_environment)
{
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
  setenv("PAWL_EXIT_WHEN_EMPTY", "perhaps", 1);
  assert_wrong(LOAD(CONFIG_WORKER), "--exit-when-empty: got \"perhaps\" (from PAWL_EXIT_WHEN_EMPTY)", "true or false");
}

CONFIG_TEST(test_types)
{
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

CONFIG_TEST(test_uri_file)
{
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

CONFIG_TEST(test_uri)
{
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
CONFIG_TEST(test_databases_of_mongodb)
{
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
