/* ledger: a line of pawl-status --json, as pawl-dump --uri reads it: whatever it is, it is an answer for the type or an error. */
#include "image.h"
#include "storage/dump_ledger.h"
#include "target.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
  struct committed end;
  struct error error = {""};
  char *line = malloc(size + 1);
  CHECK(line != NULL);
  if (size > 0)
    memcpy(line, input, size);
  line[size] = 0;
  if (ledger_parse(line, size, IMAGE_TYPE, &end, &error))
    CHECK(end.length >= 0 && end.tail >= 0 && end.seq >= 0 && end.items >= 0 && strchr(end.file, '/') == NULL);
  else
    CHECK(error.text[0] != 0);
  free(line);
  return 0;
}
