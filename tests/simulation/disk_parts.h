/* disk_parts: what the two files of the disk share: its inodes, names and descriptors. */
#ifndef PAWL_TESTS_SIMULATION_DISK_PARTS_H
#define PAWL_TESTS_SIMULATION_DISK_PARTS_H

#include "chaos.h"
#include "disk.h"
#include "process.h"
#include "tests/disk_bytes.h"

enum { DESCRIPTORS_MAX = 4096, SECTOR_BYTES = 512, CHECKER = -1 };

struct change { /* not yet durable: bytes written, or a cut to `offset` */
  struct change *next;
  int machine;
  bool cut;
  size_t offset, size;
  uint8_t bytes[];
};

struct inode {
  struct inode *next;
  struct bytes durable, view[MACHINES_MAX]; /* the durable bytes; the bytes that each machine sees */
  struct change *changes;
  int guard;                /* the descriptor that holds the guard; -1: none */
  int64_t committed_length; /* according to the ledger */
  struct bytes committed;   /* the bytes when they were committed */
};

struct name {
  uint64_t hash;
  char name[FILE_NAME_SIZE];
  struct inode *now, *durable; /* NULL: does not exist */
  int creator;                 /* a machine; the others see the name from seen_us on */
  int64_t seen_us;
  int64_t removed_until_us; /* until then another process has moved the file away */
  int remover;              /* the process that was syncing the file, */
  uint64_t remover_action;  /* and the number of its action */
};

struct descriptor {
  struct inode *inode; /* NULL: closed */
  bool writable;
  bool failed; /* the kernel dropped data written on this machine: the next sync or close reports it (errseq) */
  int process, machine;
};

extern struct name *names;
extern size_t name_count;
extern struct descriptor descriptors[DESCRIPTORS_MAX];
extern int descriptor_next;
extern int64_t faults[PROCESSES_MAX]; /* by process */

struct inode *inode_new(void);
void inode_change(struct inode *inode, int machine, bool cut, size_t offset, const void *bytes, size_t size);
void inode_lose(struct inode *inode, int machine);
void inode_sync(struct inode *inode, int machine);
bool inode_has_changes(const struct inode *inode, int machine);
struct name *name_find(const char *name);
struct name *name_add(const char *name);
void name_set(struct name *entry, struct inode *inode);
int machine_of_caller(void);
void descriptor_close(int fd);
void name_remove_for_a_while(const char *name);

#endif
