/* ledger: a line of pawl-status --json, as pawl-dump --uri reads it. Any line gives an answer for the type or an error. */
#include "image.h"
#include "target.h"
#include "tools/dump/ledger.h"

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
  struct ledger_answer answer;
  struct error error = {.text = ""};
  char *line = malloc(size + 1);
  CHECK(line != NULL);
  if (size > 0)
    memcpy(line, input, size);
  line[size] = 0;
  if (ledger_parse(line, size, IMAGE_TYPE, &answer, &error))
    CHECK(answer.end.length >= 0 && answer.end.tail >= 0 && answer.end.seq >= 0 && answer.end.items >= 0 && answer.epoch >= 0 &&
          strchr(answer.end.file, '/') == NULL);
  else
    CHECK(error.text[0] != 0);
  free(line);
  return 0;
}
