#include "tools/person.h"
#include "lockstore/mutex.h"

#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

void person_name(char *text, size_t size)
{
  struct lock_holder holder;
  const struct passwd *user = getpwuid(getuid());
  lock_holder_self(&holder, LOCK_BY_TOOL, "pawl");
  if (user != NULL)
    snprintf(text, size, "%.60s@%.60s", user->pw_name, holder.host);
  else
    snprintf(text, size, "%u@%.60s", (unsigned)getuid(), holder.host);
}
