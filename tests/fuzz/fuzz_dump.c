/*
 * dump: pawl-dump itself, from its arguments to its exit code, on a directory of the memory disk. The control bytes choose the options and
 * the ledger's answer. Checked: the exit code is a known one, and the output is safe for a terminal and for a program that reads it: text
 * is printable UTF-8 only, one message a line.
 */
#include "image.h"
#include "target.h"
#include "tools/dump/json.h"
#include "tools/dump/ledger.h"
#include "unit/memory_disk.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int dump_main(int argc, char **argv); /* main of dump/main.c, renamed by the compiler for this target */

enum { WORDS_MAX = 40, TEXT_BYTES = 64 };

static const char *const formats[] = {"relaxed", "canonical", "payload", "bson", "hex", "blocks", "summary", "none"};
enum { RELAXED, CANONICAL, PAYLOAD, BSON, HEX, BLOCKS, SUMMARY, NONE };

static struct committed ledger;
static int out = -1; /* replaces stdout */

/* Replaces the functions of dump/ledger.c, which ask MongoDB. */
void ledger_begin(struct ledgers *ledgers, const char *uri, const char *db)
{
  *ledgers = (struct ledgers){.uri = uri, .db = db};
}

bool ledger_ask(struct ledgers *ledgers, const char *type, struct ledger_answer *answer, struct error *error)
{
  (void)ledgers;
  if (strcmp(type, IMAGE_TYPE) != 0) {
    error_set(error, "the ledger of another type cannot be used");
    return false;
  }
  *answer = (struct ledger_answer){.end = ledger};
  return true;
}

bool ledger_list_types(struct ledgers *ledgers, char (**types)[TYPE_BYTES_MAX + 1], size_t *count, struct error *error)
{
  (void)ledgers, (void)error;
  *types = calloc(1, sizeof **types);
  *count = ledger.file[0] != 0;
  snprintf((*types)[0], sizeof **types, "%s", IMAGE_TYPE);
  return true;
}

struct words {
  char *at[WORDS_MAX + 1];
  char text[WORDS_MAX][TEXT_BYTES];
  int count;
};

__attribute__((format(printf, 2, 3))) static void say(struct words *words, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(words->text[words->count], TEXT_BYTES, format, arguments);
  va_end(arguments);
  words->at[words->count] = words->text[words->count];
  words->count++;
}

static long long number(const struct image *image, enum control_at at)
{
  return (long long)(image_get64(image->control + at) >> 1);
}

/* Bits for the options. */
static bool on(const struct image *image, int bit)
{
  return image_get32(image->control + CONTROL_SWITCHES) >> bit & 1;
}

static void say_selection(struct words *words, const struct image *image)
{
  if (on(image, 10))
    say(words, "--from-seq=%lld", number(image, CONTROL_SEEK));
  if (on(image, 11))
    say(words, "--to-seq=%lld", number(image, CONTROL_SEQ));
  if (on(image, 12))
    say(words, "--since=%d-11-14T22:13:%02d.5Z", 2022 + image->control[CONTROL_TIME] % 3, image->control[CONTROL_TIME + 1] % 60);
  if (on(image, 13))
    say(words, "--until=2023-11-14T22:%02d:%02dZ", image->control[CONTROL_TIME + 2] % 60, image->control[CONTROL_TIME + 3] % 60);
  if (on(image, 14))
    say(words, "-n%d", image->control[CONTROL_SMALL] % 32);
  if (on(image, 15))
    say(words, "--tail=%d", image->control[CONTROL_SMALL + 1] % 32);
}

static void say_switches(struct words *words, const struct image *image)
{
  static const char *const switches[] = {"--with-meta", "--count", "--unconfirmed", "--strict", "--keep-going", "--verify", "--deep", "-q"};
  for (int i = 0; i < 8; i++)
    if (on(image, i))
      say(words, "%s", switches[i]);
}

static void say_sources(struct words *words, const struct image *image, bool with_ledger)
{
  char name[FILE_NAME_SIZE];
  if (with_ledger)
    say(words, "--uri=mongodb://h");
  if (on(image, 16)) {
    say(words, "--dir=" IMAGE_DIR);
    if (on(image, 17))
      say(words, "--type=" IMAGE_TYPE);
  } else
    for (size_t i = 0; i < image->count; i++) {
      image_name(image->files[i].epoch, name);
      say(words, IMAGE_DIR "/%.40s", name);
    }
}

/* ---- what it printed ---- */

static void printable(const char *text, size_t size)
{
  for (size_t i = 0; i < size; i++)
    CHECK(text[i] == '\n' || ((unsigned char)text[i] >= ' ' && text[i] != 0x7f));
  CHECK(size == 0 || text[size - 1] == '\n');
}

/* One message a line, and no raw control character in it. */
static void json_check(const char *text, size_t size)
{
  CHECK(json_text_valid(text, size) && (size == 0 || text[size - 1] == '\n'));
  for (size_t i = 0; i < size; i++)
    CHECK((unsigned char)text[i] >= ' ' || (text[i] == '\n' && (i + 1 == size || text[i + 1] == '{')));
}

static void printed_check(const struct image *image, size_t format, int code)
{
  off_t size = lseek(out, 0, SEEK_END);
  char *text = size > 0 ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, out, 0) : NULL;
  CHECK(text != MAP_FAILED);
  bool verify = on(image, 5), count = on(image, 1);
  if (code == 2)
    CHECK(size == 0);
  else if (verify || count || format == BLOCKS || format == SUMMARY || format == HEX || format == NONE)
    printable(text, (size_t)size);
  else if (format == RELAXED || format == CANONICAL)
    json_check(text, (size_t)size);
  if (text != NULL)
    munmap(text, (size_t)size);
}

static void open_out(void)
{
  if (out >= 0)
    return;
  out = memfd_create("stdout", MFD_CLOEXEC);
  CHECK(out >= 0);
}

static int run(struct words *words)
{
  char *said = NULL;
  size_t size = 0;
  FILE *real = stderr;
  int stdout_before = dup(STDOUT_FILENO);
  CHECK(stdout_before >= 0 && dup2(out, STDOUT_FILENO) >= 0);
  stderr = open_memstream(&said, &size);
  int code = dump_main(words->count, words->at);
  fclose(stderr);
  stderr = real;
  dup2(stdout_before, STDOUT_FILENO);
  close(stdout_before);
  for (size_t i = 0; i < size; i++)
    CHECK(said[i] == '\n' || ((unsigned char)said[i] >= ' ' && said[i] != 0x7f));
  free(said);
  return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
  static struct words words;
  struct image image;
  image_parse(&image, input, size);
  image_to_disk(&image);
  open_out();
  CHECK(ftruncate(out, 0) == 0 && lseek(out, 0, SEEK_SET) == 0);
  bool with_ledger = image_end(&image, &ledger);
  size_t format = image.control[CONTROL_SMALL + 2] % (sizeof formats / sizeof *formats);
  words.count = 0;
  say(&words, "pawl-dump");
  say(&words, "--format=%s", formats[format]);
  say_switches(&words, &image);
  say_selection(&words, &image);
  say_sources(&words, &image, with_ledger);
  words.at[words.count] = NULL;
  int code = run(&words);
  CHECK(code >= 0 && code <= 5);
  printed_check(&image, format, code);
  CHECK(memory_disk_open_files() == 0);
  memory_disk_reset();
  return 0;
}
