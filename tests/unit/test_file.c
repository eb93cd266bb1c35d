/* file: the real disk, in a directory of its own. */
#include "storage/brick.h"
#include "storage/file.h"
#include "unit_test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

static char folder[] = "/tmp/test_file_XXXXXX";
static char path[100];
static struct error error;
static struct file file;

/* The file system type that statfs(2) reports, to this test and to the code under test; 0: the real one. */
static unsigned long pretended;

int fstatfs(int fd, struct statfs *fs)
{
  int result = (int)syscall(SYS_fstatfs, fd, fs);
  if (pretended != 0)
    fs->f_type = (__typeof__(fs->f_type))pretended;
  return result;
}

int statfs(const char *name, struct statfs *fs)
{
  int result = (int)syscall(SYS_statfs, name, fs);
  if (pretended != 0)
    fs->f_type = (__typeof__(fs->f_type))pretended;
  return result;
}

/* The linker puts these in the place of the C library's: a file system of 1,000 KiB, of which 9 are the superuser's; and a directory that
 * fails after `entries_left` entries, -1: it does not fail. */
static bool reserves;
static int entries_left = -1;
int __real_statvfs(const char *name, struct statvfs *fs);
int __wrap_statvfs(const char *name, struct statvfs *fs);
struct dirent *__real_readdir(DIR *stream);
struct dirent *__wrap_readdir(DIR *stream);

int __wrap_statvfs(const char *name, struct statvfs *fs)
{
  int result = __real_statvfs(name, fs);
  if (reserves) {
    fs->f_frsize = 1024;
    fs->f_blocks = 1000;
    fs->f_bfree = 19;
    fs->f_bavail = 10;
  }
  return result;
}

struct dirent *__wrap_readdir(DIR *stream)
{
  if (entries_left < 0 || entries_left-- > 0)
    return __real_readdir(stream);
  errno = EIO;
  return NULL;
}

static const char *path_of(const char *name)
{
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static int folder_make(void **state)
{
  (void)state;
  return mkdtemp(folder) == NULL;
}

static void remove_each(void *context, const char *name)
{
  (void)context;
  if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
    assert_int_equal(remove(path_of(name)), 0);
}

static int folder_clear(void **state)
{
  (void)state;
  return file_list(folder, remove_each, NULL, &error) != FILE_OK;
}

static int folder_remove(void **state)
{
  (void)state;
  return rmdir(folder);
}

static enum file_status open_as(const char *name, enum file_mode mode)
{
  return file_open(&file, folder, name, mode, 0640, &error);
}

static void make(const char *name, const char *text)
{
  assert_int_equal(open_as(name, FILE_CREATE), FILE_OK);
  assert_int_equal(file_write(&file, 0, text, strlen(text), &error), FILE_OK);
  assert_int_equal(file_close(&file, &error), FILE_OK);
}

static void assert_says(const char *part)
{
  if (strstr(error.text, part) == NULL)
    fail_msg("\"%s\" is not in \"%s\"", part, error.text);
}

TEST_WITH(test_write_and_read, NULL, folder_clear)
{
  char bytes[16];
  size_t got = 0;
  int64_t size = 0;
  assert_int_equal(open_as("a", FILE_CREATE), FILE_OK);
  assert_int_equal(file_write(&file, 5, "world", 5, &error), FILE_OK);
  assert_int_equal(file_write(&file, 0, "hello", 5, &error), FILE_OK);
  assert_int_equal(file_sync(&file, &error), FILE_OK);
  assert_int_equal(file_sync_new(&file, folder, &error), FILE_OK);
  assert_int_equal(file_size(&file, &size, &error), FILE_OK);
  assert_int_equal(size, 10);
  assert_int_equal(file_read(&file, 3, bytes, sizeof bytes, &got, &error), FILE_OK);
  assert_int_equal(got, 7);
  assert_memory_equal(bytes, "loworld", 7);
  assert_int_equal(file_read(&file, 10, bytes, 1, &got, &error), FILE_OK);
  assert_int_equal(got, 0);
  assert_int_equal(file_cut(&file, 4, &error), FILE_OK);
  assert_int_equal(file_size(&file, &size, &error), FILE_OK);
  assert_int_equal(size, 4);
  assert_int_equal(file_close(&file, &error), FILE_OK);
}

TEST_WITH(test_modes, NULL, folder_clear)
{
  assert_int_equal(open_as("a", FILE_READ), FILE_ABSENT);
  assert_says("/a: No such file");
  assert_int_equal(open_as("a", FILE_WRITE), FILE_ABSENT);
  make("a", "x");
  assert_int_equal(open_as("a", FILE_CREATE), FILE_EXISTS);
  assert_int_equal(open_as("a", FILE_READ), FILE_OK);
  assert_int_equal(file_write(&file, 0, "y", 1, &error), FILE_FAILED);
  assert_says("writing a: ");
  assert_int_equal(file_close(&file, &error), FILE_OK);
  assert_int_equal(file_close(&file, &error), FILE_FAILED); /* twice */
  assert_int_equal(file_open(&file, "/nowhere", "a", FILE_READ, 0, &error), FILE_ABSENT);
}

/* A write goes to its own offset, whatever the file's end: the file was not opened for appending. */
TEST_WITH(test_not_appending, NULL, folder_clear)
{
  char bytes[4];
  size_t got = 0;
  make("a", "abcd");
  assert_int_equal(open_as("a", FILE_WRITE), FILE_OK);
  assert_int_equal(fcntl(file.fd, F_GETFL) & O_APPEND, 0);
  assert_true(fcntl(file.fd, F_GETFD) & FD_CLOEXEC);
  assert_int_equal(file_write(&file, 1, "X", 1, &error), FILE_OK);
  assert_int_equal(file_read(&file, 0, bytes, 4, &got, &error), FILE_OK);
  assert_memory_equal(bytes, "aXcd", 4);
  assert_int_equal(file_close(&file, &error), FILE_OK);
}

/* Whether the open file is still the file of that name, and as long as it should be. */
TEST_WITH(test_in_place, NULL, folder_clear)
{
  make("a", "abcd");
  make("b", "efgh");
  assert_int_equal(open_as("a", FILE_WRITE), FILE_OK);
  assert_int_equal(file_in_place(&file, folder, 4, &error), FILE_OK);
  assert_int_equal(file_in_place(&file, folder, 3, &error), FILE_ABSENT);
  assert_int_equal(file_in_place(&file, folder, 5, &error), FILE_ABSENT);
  assert_non_null(strstr(error.text, "it has 4 bytes, expected 5"));
  char from[sizeof path];
  strcpy(from, path_of("b"));
  assert_int_equal(rename(from, path_of("a")), 0);
  assert_int_equal(file_in_place(&file, folder, 4, &error), FILE_ABSENT);
  assert_non_null(strstr(error.text, "another file was put in its place"));
  assert_int_equal(unlink(path_of("a")), 0);
  assert_int_equal(file_in_place(&file, folder, 4, &error), FILE_ABSENT);
  assert_int_equal(file_close(&file, &error), FILE_OK);
  /* A symbolic link to the file does not count: no worker opens one. */
  make("c", "ijkl");
  assert_int_equal(open_as("c", FILE_WRITE), FILE_OK);
  strcpy(from, path_of("c"));
  assert_int_equal(rename(from, path_of("moved")), 0);
  assert_int_equal(symlink("moved", from), 0);
  assert_int_equal(file_in_place(&file, folder, 4, &error), FILE_ABSENT);
  assert_int_equal(file_close(&file, &error), FILE_OK);
}

TEST_WITH(test_permissions_whatever_the_umask, NULL, folder_clear)
{
  struct stat status;
  static const unsigned modes[] = {0640, 0600, 0664, 0444};
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    char name[8] = {'m', (char)('0' + i), 0};
    mode_t before = umask(0777);
    enum file_status created = file_open(&file, folder, name, FILE_CREATE, modes[i], &error);
    umask(before);
    assert_int_equal(created, FILE_OK);
    assert_int_equal(file_close(&file, &error), FILE_OK);
    assert_int_equal(stat(path_of(name), &status), 0);
    assert_int_equal(status.st_mode & 07777, modes[i]);
  }
}

/* Only regular files are opened, and the open does not wait for the other end of a pipe. */
TEST_WITH(test_others_refused, NULL, folder_clear)
{
  make("target", "x");
  assert_int_equal(symlink("target", path_of("link")), 0);
  assert_int_equal(symlink("nothing", path_of("dangling")), 0);
  assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
  assert_int_equal(mkdir(path_of("dir"), 0700), 0);
  assert_int_equal(open_as("link", FILE_READ), FILE_FAILED);
  assert_int_equal(open_as("link", FILE_WRITE), FILE_FAILED);
  assert_int_equal(open_as("dangling", FILE_READ), FILE_FAILED);
  assert_int_equal(open_as("dangling", FILE_CREATE), FILE_EXISTS);
  assert_int_equal(open_as("fifo", FILE_READ), FILE_FAILED);
  assert_says("not a regular file");
  assert_int_equal(open_as("fifo", FILE_WRITE), FILE_FAILED);
  assert_int_equal(open_as("dir", FILE_READ), FILE_FAILED);
  assert_int_equal(open_as("dir", FILE_WRITE), FILE_FAILED);
}

/* The guard belongs to the open file: it also excludes other descriptors in this process, and ends with the close. */
TEST_WITH(test_guard, NULL, folder_clear)
{
  struct file other;
  make("a", "x");
  assert_int_equal(open_as("a", FILE_WRITE), FILE_OK);
  assert_int_equal(file_open(&other, folder, "a", FILE_WRITE, 0, &error), FILE_OK);
  assert_int_equal(file_guard(&file, &error), FILE_OK);
  assert_int_equal(file_guard(&file, &error), FILE_OK); /* this descriptor has it already */
  assert_int_equal(file_guard(&other, &error), FILE_BUSY);
  struct file reader; /* Closing another descriptor of the file does not free the guard, unlike a POSIX lock. */
  assert_int_equal(file_open(&reader, folder, "a", FILE_READ, 0, &error), FILE_OK);
  assert_int_equal(file_close(&reader, &error), FILE_OK);
  assert_int_equal(file_guard(&other, &error), FILE_BUSY);
  assert_int_equal(file_close(&file, &error), FILE_OK);
  assert_int_equal(file_guard(&other, &error), FILE_OK);
  assert_int_equal(file_close(&other, &error), FILE_OK);
}

TEST_WITH(test_unlink, NULL, folder_clear)
{
  make("a", "x");
  assert_int_equal(file_unlink(folder, "a", &error), FILE_OK);
  assert_int_equal(file_unlink(folder, "a", &error), FILE_ABSENT);
}

TEST_WITH(test_place, NULL, folder_clear)
{
  struct file_place place = {.free_bytes = -1};
  assert_int_equal(file_place(folder, &place, &error), FILE_OK);
  assert_true(place.free_bytes >= 0);
  reserves = true;
  assert_int_equal(file_place(folder, &place, &error), FILE_OK);
  reserves = false;
  assert_int_equal(place.free_bytes, 10 * 1024); /* not what only the superuser may use */
  assert_int_equal(place.size_bytes, 1000 * 1024);
  assert_int_equal(file_place("/proc", &place, &error), FILE_OK);
  assert_false(place.local);
  assert_int_equal(file_place("/nowhere", &place, &error), FILE_ABSENT);
}

/* The open file itself is asked: it is on its directory's file system, unless another one is mounted in there. */
TEST_WITH(test_local, NULL, folder_clear)
{
  struct file_place place;
  struct file other;
  bool local = true;
  make("a", "x");
  assert_int_equal(open_as("a", FILE_READ), FILE_OK);
  assert_int_equal(file_place(folder, &place, &error), FILE_OK);
  assert_int_equal(file_local(&file, &local, &error), FILE_OK);
  assert_int_equal(local, place.local);
  assert_int_equal(file_close(&file, &error), FILE_OK);
  assert_int_equal(file_open(&other, "/proc", "version", FILE_READ, 0, &error), FILE_OK);
  assert_int_equal(file_local(&other, &local, &error), FILE_OK);
  assert_false(local);
  assert_int_equal(file_close(&other, &error), FILE_OK);
}

/* A file system counts as local only if it is known to belong to one kernel, and to have one guard per file. */
TEST_WITH(test_local_file_systems, NULL, folder_clear)
{
  static const struct {
    unsigned long type;
    bool local;
  } systems[] = {
      {0xEF53, true},      /* ext2, ext3, ext4 */
      {0x58465342, true},  /* XFS */
      {0x9123683E, true},  /* Btrfs */
      {0x2FC12FC1, true},  /* ZFS */
      {0xF2F52010, true},  /* F2FS */
      {0x01021994, true},  /* tmpfs */
      {0x794C7630, false}, /* overlay */
      {0x6969, false},     /* NFS */
      {0x65735546, false}, /* FUSE: GlusterFS, virtiofs */
      {0xFE534D42, false}, /* SMB */
      {0xFF534D42, false}, /* CIFS */
      {0x01021997, false}, /* 9p */
      {0x00C36400, false}, /* CephFS */
      {0x0BD00BD0, false}, /* Lustre */
      {0x01161970, false}, /* GFS2 */
      {0x7461636F, false}, /* OCFS2 */
      {0x12345678, false},
  };
  make("a", "x");
  assert_int_equal(open_as("a", FILE_READ), FILE_OK);
  for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
    struct file_place place;
    bool local = !systems[i].local;
    pretended = systems[i].type;
    assert_int_equal(file_place(folder, &place, &error), FILE_OK);
    assert_int_equal(file_local(&file, &local, &error), FILE_OK);
    pretended = 0;
    if (local != systems[i].local || place.local != systems[i].local)
      fail_msg("%lx is local: %d, its directory: %d", systems[i].type, local, place.local);
  }
  assert_int_equal(file_close(&file, &error), FILE_OK);
}

static void count_each(void *context, const char *name)
{
  int *count = context;
  *count += strcmp(name, "a") == 0 || strcmp(name, "b") == 0;
}

TEST_WITH(test_list, NULL, folder_clear)
{
  int count = 0;
  make("a", "");
  make("b", "");
  assert_int_equal(file_list(folder, count_each, &count, &error), FILE_OK);
  assert_int_equal(count, 2);
  assert_int_equal(file_list("/nowhere", count_each, &count, &error), FILE_ABSENT);
  entries_left = 2; /* half a list is none */
  assert_int_equal(file_list(folder, count_each, &count, &error), FILE_FAILED);
  assert_says("reading the directory");
  entries_left = -1;
}

/* A limit on the file's size makes the kernel write only a part. */
TEST_WITH(test_short_write, NULL, folder_clear)
{
  struct rlimit before, limit;
  assert_int_equal(open_as("a", FILE_CREATE), FILE_OK);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  limit = before;
  limit.rlim_cur = 3;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  enum file_status partly = file_write(&file, 0, "abcde", 5, &error);
  struct error first = error;
  enum file_status beyond = file_write(&file, 3, "de", 2, &error);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(partly, FILE_FAILED);
  assert_string_equal(first.text, "writing a: only 3 of 5 bytes were taken");
  assert_int_equal(beyond, FILE_FAILED);
  assert_says("writing a: File too large");
  assert_int_equal(file_close(&file, &error), FILE_OK);
}

/* A sync that is not possible is reported: a pipe stands in for a broken disk. */
TEST_WITH(test_failed_sync, NULL, folder_clear)
{
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  file.fd = ends[1];
  snprintf(file.name, sizeof file.name, "pipe");
  assert_int_equal(file_sync(&file, &error), FILE_FAILED);
  assert_says("syncing pipe: ");
  assert_int_equal(file_sync_new(&file, folder, &error), FILE_FAILED);
  assert_int_equal(file_close(&file, &error), FILE_OK);
  close(ends[0]);
}

/* Recognised by the directory that every user sees, and by the attributes that root sees; at any level above. */
TEST_WITH(test_brick, NULL, folder_clear)
{
  static const char *const marks[] = {"trusted.glusterfs.volume-id", "trusted.gfid"};
  const char *below = "below", *deeper = "below/deeper", *sign = ".glusterfs";
  char dir[100], inner[100];
  snprintf(dir, sizeof dir, "%s", path_of(below));
  snprintf(inner, sizeof inner, "%s", path_of(deeper));
  assert_int_equal(mkdir(dir, 0700) | mkdir(inner, 0700), 0);
  assert_false(brick_holds(inner, &error));
  assert_false(brick_holds("/nowhere", &error));
  assert_false(brick_holds("/", &error));
  close(creat(path_of(sign), 0600));
  assert_false(brick_holds(inner, &error)); /* a file is not checked */
  assert_int_equal(unlink(path_of(sign)), 0);
  assert_int_equal(mkdir(path_of(sign), 0600), 0);
  assert_true(brick_holds(inner, &error));
  assert_says("below/deeper is part of a brick of GlusterFS (/tmp/test_file_");
  assert_true(brick_holds(folder, &error));
  assert_int_equal(rmdir(path_of(sign)), 0);
  for (size_t i = 0; i < sizeof marks / sizeof marks[0] && setxattr(dir, marks[i], "1", 1, 0) == 0; i++) {
    assert_true(brick_holds(inner, &error));
    assert_true(brick_holds(dir, &error));
    assert_false(brick_holds(folder, &error));
    assert_int_equal(removexattr(dir, marks[i]), 0);
  }
  assert_int_equal(rmdir(inner) | rmdir(dir), 0);
}

int main(void)
{
  return tests_run(folder_make, folder_remove);
}
