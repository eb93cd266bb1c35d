/*
 * One findAndModify per message, as many queues on MongoDB work: the server removes the message with w: majority and returns it, and the
 * program writes it to a file. The file is synced once, at the end. That is the rival's best case: a crash before the sync loses messages.
 *
 *   find_and_modify uri=… db=… type=t1 file=…
 */
#include "tools/client.h"

#include <fcntl.h>
#include <unistd.h>

/* False: the queue is empty. */
static bool take_one(mongoc_client_t *client, const char *db, const bson_t *command, int file)
{
  bson_t reply;
  bson_iter_t at;
  send_command(client, db, command, &reply);
  bool found = bson_iter_init_find(&at, &reply, "value") && BSON_ITER_HOLDS_DOCUMENT(&at);
  if (found) {
    uint32_t length;
    const uint8_t *bytes;
    bson_iter_document(&at, &length, &bytes);
    if (write(file, bytes, length) != (ssize_t)length)
      die("writing the file failed");
  }
  bson_destroy(&reply);
  return found;
}

int main(int argc, char **argv)
{
  (void)argc;
  const char *db = argument(argv, "db", NULL);
  mongoc_client_pool_t *pool = pool_open(argument(argv, "uri", NULL));
  mongoc_client_t *client = client_connected(pool);
  int file = open(argument(argv, "file", NULL), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  bson_t *command = BCON_NEW("findAndModify", "messages", "query", "{", "type", BCON_UTF8(argument(argv, "type", "t1")), "}", "sort", "{",
                             "_id", BCON_INT32(1), "}", "remove", BCON_BOOL(true));
  append_majority(command);
  int64_t messages = 0, begin = wall_ns();
  while (take_one(client, db, command, file))
    messages++;
  if (file < 0 || fdatasync(file) != 0 || close(file) != 0)
    die("syncing the file failed");
  print_result(messages, begin);
  end_at_once();
}
