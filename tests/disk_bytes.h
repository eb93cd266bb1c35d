/* disk_bytes: the bytes of a file on the disks of the tests. The caller frees `at`. */
#ifndef PAWL_TESTS_DISK_BYTES_H
#define PAWL_TESTS_DISK_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct bytes {
  uint8_t *at;
  size_t size, room;
};

/* What is new is zero. */
void bytes_resize(struct bytes *bytes, size_t size);
/* Writes at the offset, perhaps beyond the end. */
void bytes_put(struct bytes *bytes, size_t offset, const uint8_t *from, size_t size);

#endif
