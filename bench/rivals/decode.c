/*
 * What bsondump does, written with libbson: it prints a file of BSON documents as Extended JSON to stdout, one document a line. It checks
 * nothing.
 *
 *   decode FILE
 */
#include <bson/bson.h>
#include <stdio.h>

int main(int argc, char **argv)
{
  bson_error_t error;
  bson_reader_t *reader = argc == 2 ? bson_reader_new_from_file(argv[1], &error) : NULL;
  if (!reader) {
    fprintf(stderr, "decode: %s\n", argc == 2 ? error.message : "takes a file");
    return 1;
  }
  bool end = false;
  for (const bson_t *document; (document = bson_reader_read(reader, &end)) != NULL;) {
    char *text = bson_as_relaxed_extended_json(document, NULL);
    puts(text ? text : "?");
    bson_free(text);
  }
  bson_reader_destroy(reader);
  return end && fflush(stdout) == 0 ? 0 : 1;
}
