#include "config/options.h"

/* One of a comma list. */
static bool word_check(const char *flag, const char *from, size_t length, struct error *error)
{
  char name[TYPE_BYTES_MAX + 2], shown[150];
  snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), from);
  if (strcmp(name, "@untyped") == 0 || type_name_valid(name))
    return true;
  config_quote(name, shown, sizeof shown);
  error_set(error, "--%s: got \"%s\": takes types, each 1 to 128 bytes of A-Z a-z 0-9 _ . -, the first neither . nor -, or @untyped", flag,
            shown);
  return false;
}

/* A type of the environment or of a file may be for other programs. */
static bool own_check(const struct config *config, struct error *error)
{
  bool own = (config->own_collection && config->adopt == NULL) || config->shared_collection;
  bool typed = config->settings[option_find(CONFIG_SETUP, "type")].source == SOURCE_FLAG;
  if (own && config->type_count == 0)
    error_set(error, "--%s: takes --type TYPE, too", config->own_collection ? "own-collection" : "shared-collection");
  else if (!own && typed)
    error_set(error, "--type: takes --own-collection or --shared-collection, too");
  return own ? config->type_count > 0 : !typed;
}

/* A database that is given, most often by the environment, holds here in place of that in the URI, and not there. */
static bool carry_dbs_check(const struct config *config, struct error *error)
{
  const struct config_setting *from = &config->settings[option_find(CONFIG_SETUP, "db")],
                              *to = &config->settings[option_find(CONFIG_SETUP, "to-db")];
  if (from->source <= SOURCE_DEFAULT || to->source > SOURCE_DEFAULT || to->value == NULL || strcmp(from->value, to->value) == 0)
    return true;
  error_set(error, "--carry: the database here is \"%s\" (from %.300s), and there it would be \"%s\" (from %s): takes --to-db, too",
            from->value, from->origin, to->value, to->origin);
  return false;
}

/* --carry needs a place to carry to, and nothing else does. */
static bool carry_check(const struct config *config, struct error *error)
{
  bool to = config->to_uri != NULL;
  if (config->carry != NULL && !to)
    error_set(error, "--carry: takes --to-uri or --to-uri-file beside it: where the type goes");
  else if (config->carry == NULL && (to || config->to_db != NULL))
    error_set(error, "--%s: is only for --carry", to ? "to-uri" : "to-db");
  else
    return config->carry == NULL || carry_dbs_check(config, error);
  return false;
}

bool setup_check(const struct config *config, struct error *error)
{
  const struct {
    const char *flag, *list;
    bool given;
  } tasks[] = {{"adopt", NULL, config->adopt != NULL},
               {"own-collection", NULL, config->own_collection && config->adopt == NULL}, /* of the type that is adopted */
               {"shared-collection", NULL, config->shared_collection},
               {"list-refused", NULL, config->list_refused},
               {"set-aside", config->set_aside, config->set_aside != NULL},
               {"put-back", config->put_back, config->put_back != NULL},
               {"carry", NULL, config->carry != NULL}};
  const char *given = NULL;
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
    if (tasks[i].given && given != NULL) {
      error_set(error, "--%s and --%s: takes one of them", given, tasks[i].flag);
      return false;
    }
    given = tasks[i].given ? tasks[i].flag : given;
    for (const char *at = tasks[i].list; at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL)
      if (!word_check(tasks[i].flag, at, strcspn(at, ","), error))
        return false;
  }
  return own_check(config, error) && type_check("adopt", config->adopt, error) && type_check("carry", config->carry, error) &&
         carry_check(config, error);
}
