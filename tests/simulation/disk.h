/*
 * disk: storage/file.h for the simulation: a directory on a disk of one machine, or shared by several.
 *
 * Bytes are durable once they are synced. Until then they are changes of the machine whose process wrote them. That machine
 * sees them (page cache); on a network file system the other machines do not, unless the plan says so. When a machine crashes,
 * its changes are kept, lost, or kept in part, sector by sector. After a failed sync they are dropped, and yet the machine sees
 * them until it crashes, because the kernel forgets the failure (fsyncgate). Names are durable once the directory was synced;
 * on a network at once.
 *
 * Committed bytes (by the ledger, as checks.c reports it) must not be written to, cut or unlinked: each call checks that. A
 * caller without a process (fiber_process is NULL) is a check: it sees what is durable, and nothing fails.
 */
#ifndef PAWL_TESTS_SIMULATION_DISK_H
#define PAWL_TESTS_SIMULATION_DISK_H

#include "storage/file.h"

void disk_begin(void);
void disk_end(void);

void disk_process_died(int process);
void disk_machine_crashed(int machine);
void disk_write_back(void);

/* Another program writes something after the end of a file. */
void disk_scribble(const char *name);
/* How often a call of this process failed, or others changed a file that it had open. */
int64_t disk_faults(int process);
/* Whether a caller sees this name now. */
bool disk_has(const char *name);
/* The caller's action has synced this file, and believes that it is there. */
void disk_check_removed(const char *name, int process, uint64_t action);

/* The durable bytes; NULL: no such file. Valid until the next event. */
const uint8_t *disk_durable(const char *name, size_t *size);
/* From now on these bytes are committed. Later checks compare them with what they are now. */
void disk_committed(const char *name, int64_t length);
/* Checks that all committed bytes are what they were when they were committed. */
void disk_check(void);

#endif
