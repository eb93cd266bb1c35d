/*
 * file: the handful of calls by which pawl touches a disk.
 *
 * One of the seams: tests link a disk of their own under these names (one that runs full, writes short, or loses what was
 * not synced). Nothing above this header calls the system for a file.
 *
 * A `struct file` is the caller's memory, has a descriptor between file_open and file_close, and belongs to one thread at
 * a time. Every call blocks on the disk. All names are bare names inside `dir`.
 *
 * After a failed write or sync the file's state on disk is not known: the caller must close it and not write to it again
 * (the kernel reports a failed write-back once, then forgets it: "fsyncgate", PostgreSQL 2018).
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
  FILE_CREATE, /* O_RDWR | O_CREAT | O_EXCL; never O_APPEND, which would put a late write wherever the end happens to be */
};

/* As `dir`, with a descriptor's number as the name: what this process has open already, for FILE_READ. Linux's own links there are followed. */
#define FILE_DIR_OPEN "/proc/self/fd"

/* `permissions` is for FILE_CREATE, as chmod(2)'s, whatever the umask. Symbolic links and anything but regular files are refused. */
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
 * FILE_OK: `dir` still names this file by its name, and it is `size` bytes long. FILE_ABSENT: it was removed, replaced, cut or
 * written to by somebody else while it was open.
 */
MUST_CHECK enum file_status file_in_place(struct file *file, const char *dir, int64_t size, struct error *error);
/* Makes the file `length` bytes long; what is beyond is gone. */
MUST_CHECK enum file_status file_cut(struct file *file, int64_t length, struct error *error);
/* FILE_OK: this user may write to the file. Asked without opening it, so nothing changes. */
MUST_CHECK enum file_status file_writable(const char *dir, const char *name, struct error *error);
/* Takes the guard (F_OFD_SETLK, the whole file, for writing) without waiting; file_close or death frees it. */
MUST_CHECK enum file_status file_guard(struct file *file, struct error *error);
MUST_CHECK enum file_status file_unlink(const char *dir, const char *name, struct error *error);

/*
 * Is it on a local file system: one of the types known to belong to one kernel (ext, xfs, btrfs, zfs, f2fs, tmpfs), whose guard every
 * process sees that can write to it? Overlay is not: it grants a guard that its upper directory grants again.
 */
MUST_CHECK enum file_status file_local(struct file *file, bool *local, struct error *error);

/* What the directory's file system is like. */
struct file_place {
  bool local;         /* as file_local; a single file of another file system can be mounted into it */
  int64_t free_bytes; /* to an unprivileged writer */
};
MUST_CHECK enum file_status file_place(const char *dir, struct file_place *place, struct error *error);

/* Calls `each` for every name in `dir`, in no order. */
MUST_CHECK enum file_status file_list(const char *dir, void (*each)(void *context, const char *name), void *context, struct error *error);

#endif
