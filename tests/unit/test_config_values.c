/* config: values that are wrong. */
#include "config_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

CONFIG_TEST(test_durations)
{
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
  assert_int_equal(config.stall_ms, 3 * 3600000);
  assert_int_equal(config.timeout_ms, 120000);
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "--lease=1s", "--timeout=none"), CONFIG_RUN);
  assert_int_equal(config.stall_ms, 60000);
}

CONFIG_TEST(test_bytes)
{
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

CONFIG_TEST(test_other_kinds)
{
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
  assert_int_equal(config.codec, CONFIG_CODEC_ZSTD);
  assert_int_equal(config.log_level, CONFIG_LOG_ERROR);
  assert_int_equal(config.log_format, CONFIG_FORMAT_JSON);
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=t", "-v"), CONFIG_RUN);
  assert_int_equal(config.log_level, CONFIG_LOG_DEBUG);
}

CONFIG_TEST(test_listen)
{
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

CONFIG_TEST(test_health)
{
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

CONFIG_TEST(test_flags)
{
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

CONFIG_TEST(test_lock)
{
  assert_int_equal(LOAD(CONFIG_LOCK, "--lease", "2s", "nightly", "-q", "--", "cp", "-v", "--lease", "--", "x"), CONFIG_RUN);
  assert_string_equal(config.names[0], "nightly");
  assert_null(config.names[1]);
  assert_string_equal(config.command[0], "cp");
  assert_string_equal(config.command[3], "--");
  assert_string_equal(config.command[4], "x");
  assert_null(config.command[5]);
  assert_int_equal(config.lease_ms, 2000);
  assert_int_equal(config.timeout_ms, -1);
  assert_int_equal(config.log_level, CONFIG_LOG_ERROR);
  assert_int_equal(LOAD(CONFIG_LOCK, "n", "--timeout", "0s", "--", "x"), CONFIG_RUN);
  assert_int_equal(config.timeout_ms, 0);
  assert_wrong(LOAD(CONFIG_LOCK), "the NAME of a lock is missing", "NAME... -- COMMAND");
  assert_wrong(LOAD(CONFIG_LOCK, "--", "x"), "the NAME of a lock is missing", "");
  assert_wrong(LOAD(CONFIG_LOCK, "n"), "a command is missing after the NAME", "NAME... -- COMMAND");
  assert_wrong(LOAD(CONFIG_LOCK, "n", "--"), "a command is missing after the NAME", "");
  assert_wrong(LOAD(CONFIG_LOCK, "n", "n", "--", "x"), "got the NAME \"n\" twice", "different NAMEs");
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

CONFIG_TEST(test_dump)
{
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

CONFIG_TEST(test_times)
{
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

CONFIG_TEST(test_patterns)
{
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=a,orders.*", "--type", "*x,b,a", "--except", "orders.a*,y"), CONFIG_RUN);
  assert_int_equal(config.type_count, 2);
  assert_string_equal(config.types[1], "b");
  assert_int_equal(config.pattern_count, 2);
  assert_string_equal(config.patterns[0], "orders.*");
  assert_string_equal(config.patterns[1], "*x");
  assert_int_equal(config.except_count, 2);
  assert_int_equal(config.types_max, 256);
  assert_false(config.types_max_counts_named);
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=a", "--types-max=7"), CONFIG_RUN);
  assert_true(config.types_max == 7 && config.types_max_counts_named);
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=a"), CONFIG_RUN);
  assert_int_equal(config.types_max, 0);
}

CONFIG_TEST(test_wrong_patterns)
{
  assert_wrong(LOAD(CONFIG_WORKER, "--type=first,second , third$ ,fourth"), "--type: got \"third$\" (from command line)", "takes types");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=a*", "--except=b,c d"), "--except: got \"c d\"", "types");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=mongodb://u:se,cret@h"), "--type: got \"mongodb://", "takes types");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=a?"), "--type: got \"a?\" (from command line)", "* stands for any characters");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=*", "--except=-a"), "--except: got \"-a\"", "takes types");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=*", "--types-max=0"), "--types-max: got \"0\"", "from 1 to 100000");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=a", "--except=b"), "--except: got \"b\", and no --type with a *", "a pattern of --type");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=ab,*", "--except=a*"), "--except: got \"a*\", and --type lists \"ab\"",
               "takes only what --type does not name");
  assert_wrong(LOAD(CONFIG_WORKER, "--type=c*,b*", "--except=*b*,c*"), "--except: got \"*b*\", and nothing is left of --type", "a part");
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=c*,b*", "--except=*b*"), CONFIG_RUN);
  assert_int_equal(LOAD(CONFIG_WORKER, "--type=a,b*", "--except=*b*"), CONFIG_RUN);
  assert_wrong(LOAD(CONFIG_SETUP, "--db=here", "--carry=a", "--to-uri=mongodb://b/there"),
               "--carry: the database here is \"here\" (from command line), and there it would be \"there\" (from the URI)", "--to-db");
  assert_int_equal(LOAD(CONFIG_SETUP, "--db=there", "--carry=a", "--to-uri=mongodb://b/there"), CONFIG_RUN);
  assert_wrong(LOAD(CONFIG_STATUS, "--type=a*"), "--type: got \"a*\"", "only pawl-worker takes patterns");
}

/* What all programs share may have one. */
CONFIG_TEST(test_shared_patterns)
{
  setenv("PAWL_TYPE", "a,orders.*", 1);
  assert_int_equal(LOAD(CONFIG_STATUS), CONFIG_RUN);
  assert_int_equal(config.type_count, 0);
  assert_int_equal(LOAD(CONFIG_WORKER), CONFIG_RUN);
  assert_int_equal(config.type_count + config.pattern_count, 2);
  unsetenv("PAWL_TYPE");
}

static enum config_status name_with(uint32_t character)
{
  static const uint32_t ends[] = {0x7f, 0x7ff, 0xffff}, starts[] = {0, 0xc0, 0xe0, 0xf0};
  char option[32] = "--name=a";
  size_t at = strlen(option), more = 0;
  while (more < 3 && character > ends[more])
    more++;
  option[at++] = (char)(starts[more] | character >> 6 * more);
  while (more-- > 0)
    option[at++] = (char)(0x80 | (character >> 6 * more & 0x3f));
  strcpy(option + at, "b");
  return LOAD(CONFIG_WORKER, "--type=t", option);
}

/* Control and invisible characters, and what turns the direction of others: the first and the last of each run, and their neighbours. */
CONFIG_TEST(test_what_is_seen)
{
  static const struct {
    uint32_t from, to;
  } hidden[] = {{0x01, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e},  {0x200b, 0x200f},
                {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
  for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
    assert_wrong(name_with(hidden[i].from), "--name: got ", "no control or invisible characters");
    assert_wrong(name_with(hidden[i].to), "--name: got ", "no control or invisible characters");
    if (hidden[i].from > 1)
      assert_int_equal(name_with(hidden[i].from - 1), CONFIG_RUN);
    assert_int_equal(name_with(hidden[i].to + 1), CONFIG_RUN);
  }
}

/* A URI whose scheme is missing, in the wrong place. */
CONFIG_TEST(test_no_password_in_an_error)
{
  static const char *const options[] = {"--type", "--lease", "--batch-bytes"};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    assert_wrong(LOAD(CONFIG_WORKER, (char *)options[i], "root:secret@h"), options[i], "root:");
    assert_lacks(error.text, "secret");
  }
}
