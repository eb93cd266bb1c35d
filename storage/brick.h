/*
 * brick.h: does a directory lie in a brick, the folder that a server of GlusterFS keeps a volume's files in?
 *
 * A brick looks like any local directory. But what is written there past the volume is not on the volume's other bricks, and the mounts do
 * not take part in its locks: two workers, one in a brick and one on a mount, would each believe in a file of their own. Bricks are told
 * by what GlusterFS itself goes by (trusted.glusterfs.volume-id on the brick, trusted.gfid on what is in it), which only root sees, and by
 * the folder .glusterfs, which everyone sees.
 *
 * Any thread may call; it asks the file system a few times for each level of the path.
 */
#ifndef PAWL_STORAGE_BRICK_H
#define PAWL_STORAGE_BRICK_H

#include "base.h"

/*
 * True: `dir` is in a brick, or is one, and `error` says where that was seen, and what to do. False: it is not, or does not exist. A mount
 * of GlusterFS, as anything on FUSE, is no brick.
 */
MUST_CHECK bool brick_holds(const char *dir, struct error *error);

#endif
