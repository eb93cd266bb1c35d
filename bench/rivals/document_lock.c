/*
 * A document locked in place by hand: one findAndModify that sets an owner where there is none, one update that takes it away, both by
 * majority. No lease, no token.
 *
 *   document_lock uri=… db=… seconds=…
 */
#include "tools/client.h"

int main(int argc, char **argv)
{
  (void)argc;
  const char *db = argument(argv, "db", NULL);
  mongoc_client_t *client = client_connected(pool_open(argument(argv, "uri", NULL)));
  bson_t *take = BCON_NEW("findAndModify", "work", "query", "{", "state", BCON_UTF8("new"), "owner", "{", "$exists", BCON_BOOL(false), "}", "}",
                          "update", "{", "$set", "{", "owner", BCON_INT32(1), "}", "}");
  bson_t *release = BCON_NEW("update", "work", "updates", "[", "{", "q", "{", "owner", BCON_INT32(1), "}", "u", "{", "$unset", "{", "owner",
                             BCON_UTF8(""), "}", "}", "}", "]");
  append_majority(take);
  append_majority(release);
  int64_t begin = wall_ns(), count = 0, end = begin + argument_number(argv, "seconds", NULL) * 1000000000;
  for (; wall_ns() < end; count++) {
    bson_t reply;
    send_command(client, db, take, &reply);
    bson_destroy(&reply);
    send_command(client, db, release, &reply);
    bson_destroy(&reply);
  }
  print_result(count, begin);
  end_at_once();
}
