/* findings: what fuzzing found, where a file in the corpus cannot show it, or not as clearly. */
#include "config/config.h"
#include "unit/holder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

/*
 * After each bad block an offline reader searches for a proof that something is lost. Many bad blocks before one proof must not cause a
 * search of the whole file each: a hostile file of a few MiB would keep pawl-dump busy for hours.
 */
static void test_many_bad_blocks(void **state)
{
  (void)state;
  enum { BAD = 12000, SECONDS_MAX = 10 };
  static struct holder holder;
  static struct reading reading;
  memory_disk_reset();
  holder_init(&holder, "t1");
  holder_create(&holder, "first");
  for (int i = 0; i < BAD; i++) {
    struct block_marker marker = forge_marker(&holder, BLOCK_OPEN); /* valid, but its body is not a document */
    forge_block(&holder, &marker, "", 0);
  }
  for (int i = 0; i < 2; i++)
    holder_append(&holder, 1);
  holder_drop(&holder);

  struct reader reader;
  struct error error;
  int damages = 0, blocks = 0;
  clock_t begin = clock();
  assert_int_equal(reader_open(&reader, DIR, "t1.bin", NULL, &error), READ_OK);
  for (enum read_status status; (status = reader_next(&reader, &error)) != READ_END;) {
    assert_true(status == READ_OK || status == READ_DAMAGED);
    assert_true(clock() - begin < (clock_t)SECONDS_MAX * CLOCKS_PER_SEC);
    blocks += status == READ_OK;
    damages += status == READ_DAMAGED;
    if (status == READ_DAMAGED)
      assert_int_equal(reader_pass_damage(&reader, &error), READ_OK);
  }
  reader_close(&reader);
  assert_int_equal(damages, BAD);
  assert_int_equal(blocks, 2);
  read_segment("t1.bin", &holder.committed, false, &reading);
  assert_int_equal(reading.status, READ_DAMAGED);
  memory_disk_reset();
}

/* A URI in the place of another value is a mistake of the user; its password is secret all the same. */
static void test_password_in_a_wrong_place(void **state)
{
  (void)state;
#define URI "mongodb://user:TopSecretWord@h/db"
  static const char *const words[] = {"--uri-file=" URI,  "--db=" URI, "--type=" URI, "--config=" URI,
                                      "--log-level=" URI, "--uri" URI, "--urii=" URI, URI};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    struct config config;
    struct error error = {.text = ""};
    char *argv[] = {"pawl-status", (char *)words[i], NULL};
    assert_int_equal(config_load(&config, CONFIG_STATUS, 2, argv, &error), CONFIG_WRONG);
    if (strstr(error.text, "TopSecretWord") != NULL)
      fail_msg("%s", error.text);
    config_free(&config);
  }
}

/* A log line or an error stays one line. */
static void test_one_line(void **state)
{
  (void)state;
  static const char *const words[] = {"--uri-file=a\nb\x1b[2J", "--config=a\nb\x1b[2J"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    struct config config;
    struct error error = {.text = ""};
    char *argv[] = {"pawl-status", (char *)words[i], NULL};
    assert_int_equal(config_load(&config, CONFIG_STATUS, 2, argv, &error), CONFIG_WRONG);
    assert_null(strpbrk(error.text, "\n\x1b"));
    config_free(&config);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_many_bad_blocks),
      cmocka_unit_test(test_password_in_a_wrong_place),
      cmocka_unit_test(test_one_line),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
