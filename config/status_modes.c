#include "config/options.h"
#include "visible.h"

static bool given(const struct config *config, const char *flag)
{
  return config->settings[option_find(CONFIG_STATUS, flag)].source == SOURCE_FLAG;
}

/*
 * Those of environment and file are for other calls: a shared file may have `type` or `limit` for another program, and PAWL_MAX_AGE may
 * stand for every --check.
 */
static bool needs(const struct config *config, const char *flag, const char *mode, bool has, struct error *error)
{
  if (has || !given(config, flag))
    return true;
  error_set(error, "--%s: takes --%s, too", flag, mode);
  return false;
}

/* Those that are about one type. */
static bool one_type_check(const struct config *config, const char *flag, const char *type, struct error *error)
{
  if (type != NULL && given(config, "type")) {
    error_set(error, "--%s and --type: takes one of them, and --%s one type", flag, flag);
    return false;
  }
  return type_check(flag, type, error);
}

bool reason_check(const char *reason, struct error *error)
{
  if (reason == NULL || visible_text(reason, REASON_BYTES_MAX))
    return true;
  error_set(error, "--reason: got %zu bytes: takes 1 to %d bytes of UTF-8, no control or invisible characters, no blank at either end",
            strlen(reason), REASON_BYTES_MAX);
  return false;
}

/* From the environment, or a file that all programs share, each look at the types would pause one. */
static bool is_flag(const struct config *config, const char *flag, const char *value, struct error *error)
{
  if (value == NULL || given(config, flag))
    return true;
  error_set(error, "--%s: takes a flag only, and comes from the environment or a file", flag);
  return false;
}

static bool pause_check(const struct config *config, struct error *error)
{
  if (!is_flag(config, "pause", config->pause, error) || !is_flag(config, "resume", config->resume, error))
    return false;
  if (config->pause && !config->reason)
    error_set(error, "--pause: takes --reason TEXT, too: it is shown to everybody who wonders");
  else if (!config->pause || reason_check(config->reason, error))
    return needs(config, "reason", "pause TYPE", config->pause != NULL, error);
  return false;
}

bool status_modes_check(const struct config *config, struct error *error)
{
  const char *const modes[] = {config->watch ? "watch" : NULL, config->top ? "top" : NULL,     config->check ? "check" : NULL,
                               config->peek ? "peek" : NULL,   config->pause ? "pause" : NULL, config->resume ? "resume" : NULL};
  const char *mode = NULL;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    if (mode && modes[i]) {
      error_set(error, "--%s and --%s: takes one of them", mode, modes[i]);
      return false;
    }
    mode = modes[i] ? modes[i] : mode;
  }
  if (config->json && (config->top || config->check || config->pause || config->resume)) {
    error_set(error, "--%s and --json: takes one of them", mode);
    return false;
  }
  return needs(config, "limit", "peek TYPE", config->peek != NULL, error) && needs(config, "max-age", "check", config->check, error) &&
         needs(config, "max-documents", "check", config->check, error) && one_type_check(config, "peek", config->peek, error) &&
         one_type_check(config, "pause", config->pause, error) && one_type_check(config, "resume", config->resume, error) &&
         pause_check(config, error);
}
