/*
 * brick.h: finds out whether a directory lies in a brick, the directory in which a GlusterFS server keeps the files of a volume.
 *
 * A brick looks like any local directory. But a write to it bypasses the volume and does not reach the other bricks, and the mounts of the
 * volume do not see locks that are taken in it. So a worker in a brick and a worker on a mount would each write a file of its own. pawl
 * recognizes a brick by the attributes that GlusterFS itself uses (trusted.glusterfs.volume-id on the brick, trusted.gfid on its content),
 * which only root can read, and by the directory .glusterfs, which every user can see.
 *
 * Any thread may call it. It blocks: it queries the file system a few times for each level of the path.
 */
#ifndef PAWL_STORAGE_BRICK_H
#define PAWL_STORAGE_BRICK_H

#include "base.h"

/*
 * True: `dir` is a brick or lies in one; `error` says where that was seen and what to do. False: neither, or `dir` does not exist. A
 * GlusterFS mount, like everything on FUSE, is not a brick.
 */
MUST_CHECK bool brick_holds(const char *dir, struct error *error);

#endif
