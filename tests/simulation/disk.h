/*
 * disk: storage/file.h for the simulation: a directory on a disk of one machine, or shared by several.
 *
 * Bytes are durable once they are synced; until then they are changes of the machine whose process wrote them, which that machine sees
 * (page cache) and, on a network file system, the others do not, unless the plan says so. When a machine crashes, its changes are kept,
 * lost, or kept in part, sector by sector. After a failed sync they are dropped, and are seen all the same until the machine crashes:
 * the kernel forgets (fsyncgate). Names are durable once the directory was synced; on a network at once.
 *
 * What is committed (the ledger says so, and checks.c tells here) is never written to, cut or unlinked: that is checked at each
 * call. A caller that is no process (fiber_process is NULL) is a check: it sees what is durable, and nothing fails.
 */
#ifndef PAWL_TESTS_SIMULATION_DISK_H
#define PAWL_TESTS_SIMULATION_DISK_H

#include "storage/file.h"

void disk_begin(void);
void disk_end(void);

void disk_process_died(int process);
void disk_machine_crashed(int machine);
void disk_write_back(void);

/* A stranger writes something behind the end of a file. */
void disk_scribble(const char *name);
/* How often a call of this process failed, or what it had open was changed by others. */
int64_t disk_faults(int process);
/* Is such a name seen by a look now? */
bool disk_has(const char *name);
/* The caller's action has synced this file, and believes that it is there. */
void disk_check_removed(const char *name, int process, uint64_t action);

/* The durable bytes; NULL: no such file. Valid until the next happening. */
const uint8_t *disk_durable(const char *name, size_t *size);
/* From now on these bytes are committed. They are compared with what they were. */
void disk_committed(const char *name, int64_t length);
/* Are all committed bytes what they were when they were committed? */
void disk_check(void);

#endif
