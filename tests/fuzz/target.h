/* target: a fuzzing target is a function. The fuzzer calls it with its inputs, and the replay with those of the corpus. */
#ifndef PAWL_TESTS_FUZZ_TARGET_H
#define PAWL_TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

#endif
