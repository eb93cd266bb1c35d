/* Files that refuse a lower token. */
#include "test_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64], path[128], beside[160];

static int directory_make(void **state)
{
  (void)state;
  strcpy(directory, "/tmp/pawl-lock-file-XXXXXX");
  assert_non_null(mkdtemp(directory));
  snprintf(path, sizeof path, "%s/out", directory);
  snprintf(beside, sizeof beside, "%s.token", path);
  return 0;
}

static int directory_remove(void **state)
{
  (void)state;
  unlink(path);
  unlink(beside);
  return rmdir(directory);
}

#define FILE_TEST(name) TEST_WITH(name, directory_make, directory_remove)

static enum pawl_result append(int64_t token, const char *text)
{
  return pawl_file_append(path, token, text, strlen(text), &error);
}

static void assert_file(const char *expected)
{
  char text[1 << 16] = "";
  int fd = open(path, O_RDONLY);
  assert_true(fd >= 0);
  assert_true(read(fd, text, sizeof text - 1) >= 0);
  close(fd);
  assert_string_equal(text, expected);
}

static void write_beside(const char *text)
{
  int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  close(fd);
}

FILE_TEST(a_lower_token_appends_nothing)
{
  assert_result(append(5, "a"), PAWL_OK);
  assert_result(append(5, "b"), PAWL_OK);
  assert_result(append(7, "c"), PAWL_OK);
  assert_result(append(6, "d"), PAWL_FENCED);
  assert_contains(error.text, "token 6 is below 7");
  assert_result(append(INT64_MAX, "e"), PAWL_OK);
  assert_result(append(7, "f"), PAWL_FENCED);
  assert_file("abce");
}

FILE_TEST(what_is_no_token_is_refused)
{
  static const char *const wrong[] = {
      "7", "00000000000000000007", "0000000000000000000x\n", "99999999999999999999\n", "000000000000000000007\n", "-0000000000000000007\n"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    write_beside(wrong[i]);
    assert_result(append(9, "a"), PAWL_REFUSED);
    assert_int_equal(access(path, F_OK), -1);
  }
  write_beside("00000000000000000007\n");
  assert_result(append(9, "a"), PAWL_OK);
}

FILE_TEST(wrong_appends)
{
  assert_result(append(0, "a"), PAWL_INVALID);
  assert_result(pawl_file_append(NULL, 1, "a", 1, &error), PAWL_INVALID);
  assert_result(pawl_file_append(path, 1, NULL, 1, &error), PAWL_INVALID);
  assert_result(pawl_file_append("/nowhere/out", 1, "a", 1, &error), PAWL_UNKNOWN);
  assert_contains(error.text, "No such file or directory");
}

/* Of the syncs of an append the first, the second, … fails; the linker puts these in their place. */
static int syncs_until_one_fails = -1;
int __real_fdatasync(int fd);
int __real_fsync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fsync(int fd);

static bool fails(void)
{
  if (syncs_until_one_fails < 0 || syncs_until_one_fails-- > 0)
    return false;
  errno = EIO;
  return true;
}

/* During the next sync another thread of the program would start a command; this is its process. */
static bool forks;
static pid_t forked;

int __wrap_fdatasync(int fd)
{
  if (forks && (forked = fork()) == 0)
    for (;;)
      pause();
  forks = false;
  return fails() ? -1 : __real_fdatasync(fd);
}

int __wrap_fsync(int fd)
{
  return fails() ? -1 : __real_fsync(fd);
}

/* Nothing is appended before the token is durable, and what has failed to be synced is written anew. */
FILE_TEST(a_token_is_durable_before_the_bytes)
{
  for (int sync = 0; sync < 2; sync++) {
    syncs_until_one_fails = sync;
    assert_result(append(5, "a"), PAWL_UNKNOWN);
    assert_contains(error.text, "out.token: Input/output error");
    assert_int_equal(access(path, F_OK), -1);
  }
  assert_result(append(5, "a"), PAWL_OK);
  for (int again = 0; again < 2; again++) {
    syncs_until_one_fails = 0;
    assert_result(append(7, "b"), PAWL_UNKNOWN);
    assert_file("a");
  }
  assert_result(append(4, "c"), PAWL_FENCED);
  assert_result(append(6, "d"), PAWL_OK);
  assert_file("ad");
}

/* Such a process has a copy of the descriptor, and keeps no other process from appending. */
FILE_TEST(a_child_keeps_no_lock)
{
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  forks = true;
  assert_result(append(5, "a"), PAWL_OK);
  assert_true(forked > 0);
  int fd = open(beside, O_RDWR), locked = fcntl(fd, F_OFD_SETLK, &whole);
  kill(forked, SIGKILL);
  waitpid(forked, NULL, 0);
  close(fd);
  assert_int_equal(locked, 0);
}

/* Many processes: each writes its own token, as often as it may; the tokens in the file never fall. */
FILE_TEST(tokens_never_fall)
{
  enum { PROCESSES = 8, WRITES = 50 };
  for (int i = 0; i < PROCESSES; i++)
    if (fork() == 0) {
      char text[16];
      snprintf(text, sizeof text, "%d\n", i + 1);
      for (int j = 0; j < WRITES; j++)
        (void)append(i + 1, text);
      _exit(0);
    }
  while (wait(NULL) > 0) {
  }
  FILE *file = fopen(path, "r");
  int token, last = 0, lines = 0;
  assert_non_null(file);
  for (; fscanf(file, "%d", &token) == 1; lines++) {
    assert_true(token >= last);
    last = token;
  }
  fclose(file);
  assert_int_equal(last, PROCESSES);
  assert_uint_in_range(lines, WRITES, PROCESSES * WRITES);
}

FILE_TEST(an_append_is_durable_when_it_says_so)
{
  assert_result(append(5, "a"), PAWL_OK); /* the token is there: what is synced now is the file, and its name */
  for (int sync = 0; sync < 2; sync++) {
    syncs_until_one_fails = sync;
    assert_result(append(5, "b"), PAWL_UNKNOWN);
    assert_contains(error.text, "/out: Input/output error");
  }
  assert_result(append(5, "c"), PAWL_OK);
}
