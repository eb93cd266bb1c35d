/*
 * Preloaded into a pawl program (LD_PRELOAD), records when its actions are done, in the file that BENCH_TIMES names. The program is not
 * changed, and nothing has to be polled. Each line: what, wall clock in ns, a number.
 *
 *   sync     fdatasync or fsync has returned; the file's length when it was called
 *   insert   the reply to an insert into `messages`, or a type's own collection, has arrived; the number of inserted documents
 */
#include <bson/bson.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <mongoc/mongoc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void note(const char *what, long long number)
{
  static int file = -1;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const char *path = getenv("BENCH_TIMES");
  if (file < 0 && path)
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  dprintf(file, "%s %lld %lld\n", what, (long long)now.tv_sec * 1000000000 + now.tv_nsec, number);
}

static int sync_noted(const char *name, int fd)
{
  int (*real)(int);
  *(void **)&real = dlsym(RTLD_NEXT, name);
  struct stat before = {.st_size = 0};
  fstat(fd, &before);
  int result = real(fd);
  if (result == 0 && S_ISREG(before.st_mode))
    note("sync", before.st_size);
  return result;
}

int fdatasync(int fd)
{
  return sync_noted("fdatasync", fd);
}

int fsync(int fd)
{
  return sync_noted("fsync", fd);
}

/* From a driver's reply, which is empty if none arrived. */
static long long reply_number(const bson_t *reply, const char *key)
{
  bson_iter_t at;
  return bson_iter_init_find(&at, reply, key) ? bson_iter_as_int64(&at) : 0;
}

/* The shared collection, or a type's own. */
static bool holds_messages(const char *collection)
{
  static const char shared[] = "messages";
  size_t length = sizeof shared - 1;
  return strncmp(collection, shared, length) == 0 && (collection[length] == '\0' || collection[length] == '.');
}

/* A pawl program inserts by a bulk or by a command. Wake-ups use bulks too, so this holds the last bulk made for `messages`. */
static mongoc_bulk_operation_t *of_messages;

mongoc_bulk_operation_t *mongoc_collection_create_bulk_operation_with_opts(mongoc_collection_t *collection, const bson_t *opts)
{
  mongoc_bulk_operation_t *(*real)(mongoc_collection_t *, const bson_t *);
  *(void **)&real = dlsym(RTLD_NEXT, "mongoc_collection_create_bulk_operation_with_opts");
  mongoc_bulk_operation_t *bulk = real(collection, opts);
  if (holds_messages(mongoc_collection_get_name(collection)))
    of_messages = bulk;
  else if (of_messages == bulk)
    of_messages = NULL;
  return bulk;
}

uint32_t mongoc_bulk_operation_execute(mongoc_bulk_operation_t *bulk, bson_t *reply, bson_error_t *error)
{
  uint32_t (*real)(mongoc_bulk_operation_t *, bson_t *, bson_error_t *);
  *(void **)&real = dlsym(RTLD_NEXT, "mongoc_bulk_operation_execute");
  uint32_t result = real(bulk, reply, error);
  if (bulk == of_messages)
    note("insert", reply_number(reply, "nInserted"));
  return result;
}

bool mongoc_client_write_command_with_opts(mongoc_client_t *client, const char *db, const bson_t *command, const bson_t *opts,
                                           bson_t *reply, bson_error_t *error)
{
  bool (*real)(mongoc_client_t *, const char *, const bson_t *, const bson_t *, bson_t *, bson_error_t *);
  bson_iter_t at;
  *(void **)&real = dlsym(RTLD_NEXT, "mongoc_client_write_command_with_opts");
  bool result = real(client, db, command, opts, reply, error);
  if (bson_iter_init_find(&at, command, "insert") && holds_messages(bson_iter_utf8(&at, NULL)))
    note("insert", reply_number(reply, "n"));
  return result;
}
