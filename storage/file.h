/*
 * file: the few calls through which pawl uses a disk.
 *
 * One of the seams: tests link their own disk under these names (one that runs full, writes short, or loses what was not synced). No code
 * above this header makes a system call for a file.
 *
 * The caller owns the memory of a `struct file`. It has a descriptor between file_open and file_close, and belongs to one thread at a
 * time. Every call blocks on the disk. All names are bare names inside `dir`.
 *
 * After a failed write or sync the file's state on disk is unknown: the caller must close the file and not write to it again (the kernel
 * reports a failed write-back once, then forgets it: "fsyncgate", PostgreSQL 2018).
 */
#ifndef PAWL_STORAGE_FILE_H
#define PAWL_STORAGE_FILE_H

#include "base.h"

#include <stddef.h>

struct file {
  int fd;
  char name[FILE_NAME_SIZE]; /* for error texts */
};

enum file_status {
  FILE_OK,
  FILE_ABSENT, /* no such file or directory */
  FILE_EXISTS, /* FILE_CREATE: the name is taken */
  FILE_BUSY,   /* file_guard: another open file description holds the guard */
  FILE_FAILED, /* anything else */
};

enum file_mode {
  FILE_READ,   /* O_RDONLY */
  FILE_WRITE,  /* O_RDWR, must exist */
  FILE_CREATE, /* O_RDWR | O_CREAT | O_EXCL; never O_APPEND, with which a late write would land at the end of that moment */
};

/* As `dir`, with a descriptor's number as the name: opens, for FILE_READ, what this process already has open, by the kernel's links. */
#define FILE_DIR_OPEN "/proc/self/fd"

/* `permissions`: for FILE_CREATE, as in chmod(2), independent of the umask. Refuses symbolic links and everything but regular files. */
MUST_CHECK enum file_status file_open(struct file *file, const char *dir, const char *name, enum file_mode mode, unsigned permissions,
                                      struct error *error);
/* Closes in any case. FILE_FAILED: the system reported a late write error, so what was written may be lost. */
MUST_CHECK enum file_status file_close(struct file *file, struct error *error);

/* Reads up to `size` bytes at `offset`; `*got` < size only at the file's end. */
MUST_CHECK enum file_status file_read(struct file *file, int64_t offset, void *bytes, size_t size, size_t *got, struct error *error);
/* One pwrite; a short write is FILE_FAILED. */
MUST_CHECK enum file_status file_write(struct file *file, int64_t offset, const void *bytes, size_t size, struct error *error);
/* fdatasync: the bytes, and the size needed to read them. */
MUST_CHECK enum file_status file_sync(struct file *file, struct error *error);
/* fsync of a new file, then of the directory that names it. */
MUST_CHECK enum file_status file_sync_new(struct file *file, const char *dir, struct error *error);
MUST_CHECK enum file_status file_size(struct file *file, int64_t *size, struct error *error);
/*
 * FILE_OK: the file's name in `dir` still leads to it, and it is `size` bytes long. FILE_ABSENT: another process removed, replaced, cut or
 * wrote to it while it was open.
 */
MUST_CHECK enum file_status file_in_place(struct file *file, const char *dir, int64_t size, struct error *error);
/* Makes the file `length` bytes long; the bytes beyond that are lost. */
MUST_CHECK enum file_status file_cut(struct file *file, int64_t length, struct error *error);
/* FILE_OK: this user may write to the file. The call does not open the file, so it changes nothing. */
MUST_CHECK enum file_status file_writable(const char *dir, const char *name, struct error *error);
/* Takes the guard (F_OFD_SETLK, the whole file, for writing) without waiting; file_close or the death of the process frees it. */
MUST_CHECK enum file_status file_guard(struct file *file, struct error *error);
MUST_CHECK enum file_status file_unlink(const char *dir, const char *name, struct error *error);

/*
 * Sets *local if the file is on a local file system: one of the types known to belong to one kernel (ext, xfs, btrfs, zfs, f2fs, tmpfs),
 * where each process that can write to a file sees its guard. Overlay is not: it grants a guard that its upper directory grants again.
 */
MUST_CHECK enum file_status file_local(struct file *file, bool *local, struct error *error);

/* Facts about the directory's file system. */
struct file_place {
  bool local;         /* as file_local; a single file of another file system can be mounted into it */
  int64_t free_bytes; /* for an unprivileged writer; INT64_MAX: the file system does not report its size */
  int64_t size_bytes; /* of the whole file system; the same */
};
MUST_CHECK enum file_status file_place(const char *dir, struct file_place *place, struct error *error);

/* Calls `each` for every name in `dir`, in no particular order. */
MUST_CHECK enum file_status file_list(const char *dir, void (*each)(void *context, const char *name), void *context, struct error *error);

#endif
