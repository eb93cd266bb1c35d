/*
 * memory_disk: the calls of storage/file.h in memory, linked in place of file.c: a disk that runs full, writes short, fails,
 * and loses unsynced data when its machine crashes.
 *
 * One global disk, for one thread. Every directory that is named exists. Files are as in Unix: names point to them, any number
 * of descriptors are open on a file, and one of them may hold its guard. Each descriptor belongs to the process that was
 * `memory_disk.process` when it was opened, so a test can play many processes on one disk.
 */
#ifndef PAWL_TESTS_MEMORY_DISK_H
#define PAWL_TESTS_MEMORY_DISK_H

#include "storage/file.h"

enum disk_call {
  DISK_OPEN,
  DISK_CREATE,
  DISK_CLOSE,
  DISK_READ,
  DISK_WRITE,
  DISK_SYNC,
  DISK_SYNC_NEW,
  DISK_SIZE,
  DISK_IN_PLACE,
  DISK_CUT,
  DISK_GUARD,
  DISK_UNLINK,
  DISK_PLACE,
  DISK_LOCAL,
  DISK_LIST,
  DISK_WRITABLE,
  DISK_CALLS
};

struct memory_disk {
  bool local;                          /* what file_place and file_local answer */
  int64_t free_bytes;                  /* free space: writes use it up, and fail (ENOSPC) beyond it */
  int process;                         /* the calling process */
  int fail_in[DISK_CALLS];             /* the Nth call from now fails (1: the next one); 0: none fails */
  size_t failed_write_bytes;           /* how many bytes of a failing write reach the disk: a short write */
  int64_t calls[DISK_CALLS];           /* the number of calls so far */
  void (*before)(enum disk_call call); /* NULL, or called before each call: to play what other processes do meanwhile */
};
extern struct memory_disk memory_disk;

/* Makes an empty, local disk with much free space. Frees everything that was on it. */
void memory_disk_reset(void);

/* What happens to unsynced changes. */
enum disk_fate {
  FATE_KEPT,
  FATE_LOST,
  FATE_MIXED, /* decided for each change, or each of its sectors, by `random` */
};
/* The machine crashes: unsynced changes of bytes, lengths and names meet their fate, and all descriptors are closed. */
void memory_disk_crash(enum disk_fate fate, uint64_t *random);
/* A process dies: its descriptors are closed and its guards free; nothing is lost. */
void memory_disk_kill(int process);

/* The number of open descriptors. */
int memory_disk_open_files(void);

/* The file's bytes, to read and to change without a call to the disk; valid until the next write. NULL: no such file. */
uint8_t *memory_disk_bytes(const char *dir, const char *name, size_t *size);
/* Puts a file there, synced, in place of any file of that name. */
void memory_disk_put(const char *dir, const char *name, const void *bytes, size_t size);
/* Copies a file from the real disk, as memory_disk_put does. */
void memory_disk_load(const char *dir, const char *name, const char *path);
void memory_disk_remove(const char *dir, const char *name);

/* xorshift64*: the next number of a seed that is not 0. */
uint64_t memory_disk_random(uint64_t *random);

#endif
