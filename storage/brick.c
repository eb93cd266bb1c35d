#include "storage/brick.h"

#include <linux/magic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

static bool is_fuse(const char *path)
{
  struct statfs fs;
  return statfs(path, &fs) == 0 && (unsigned long)(uint32_t)fs.f_type == FUSE_SUPER_MAGIC;
}

static bool is_marked(const char *path)
{
  static const char *const marks[] = {"trusted.glusterfs.volume-id", "trusted.gfid"};
  char below[4096 + sizeof "/.glusterfs"];
  struct stat status;
  for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
    if (lgetxattr(path, marks[i], NULL, 0) > 0)
      return true;
  snprintf(below, sizeof below, "%s/.glusterfs", path);
  return lstat(below, &status) == 0 && S_ISDIR(status.st_mode);
}

bool brick_holds(const char *dir, struct error *error)
{
  char *path = realpath(dir, NULL);
  bool found = false;
  if (path != NULL && !is_fuse(path))
    /* Go up level by level; "/" becomes an empty text. */
    for (char *end = path + strlen(path); !(found = is_marked(path)) && end > path; *end = '\0')
      while (--end > path && *end != '/')
        ;
  if (found)
    error_set(error,
              "%.400s is part of a brick of GlusterFS (%.400s): writes there do not reach the volume's other bricks; mount "
              "the volume, and use a directory of the mount",
              dir, *path ? path : "/");
  free(path);
  return found;
}
