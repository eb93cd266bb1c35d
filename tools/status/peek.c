#include "tools/overview/peek.h"
#include "lockstore/mongo.h"
#include "tools/status/status.h"

#include <stdlib.h>

enum { SHOWN_BYTES = 2000 };

struct peeking {
  const struct config *config;
  int64_t count;
  bool failed; /* no memory */
};

static void print_one(void *context, const bson_t *document)
{
  struct peeking *peeking = context;
  char *json = overview_document_json(document, peeking->config->json ? 0 : SHOWN_BYTES);
  peeking->failed |= json == NULL;
  if (json)
    puts(json);
  free(json);
  peeking->count++;
}

static int64_t limit_of(const struct config *config)
{
  return config->limit < 0 ? 0 : config->limit; /* 0 is no limit for MongoDB */
}

int status_peek(const struct config *config, struct lockstore *store)
{
  struct peeking peeking = {.config = config};
  struct error error;
  enum outcome outcome =
      config->limit == 0 ? OUTCOME_YES : overview_peek(store, config->peek, limit_of(config), print_one, &peeking, &error);
  if (outcome == OUTCOME_YES && peeking.failed) {
    error_set(&error, "out of memory");
    outcome = OUTCOME_NO;
  }
  if (outcome != OUTCOME_YES) {
    fprintf(stderr, "%spawl-status: %s\n", config_priority(CONFIG_LOG_ERROR), error.text);
    return mongo_exit_code(outcome, &error);
  }
  if (peeking.count == 0 && config->limit != 0)
    fprintf(stderr, "%spawl-status: no document of type %s waits\n", config_priority(CONFIG_LOG_INFO), config->peek);
  return fflush(stdout) != 0 || ferror(stdout) ? EXIT_FAILED : EXIT_DONE;
}
