/*
 * bson_array.h: starts an array in a document, under one name for libbson 1.x and 2.x.
 *
 * libbson 2 has a new name for the call that starts an array whose keys the caller writes, and marks the old name as deprecated.
 * bson_append_array_end ends the array in both.
 */
#ifndef PAWL_BSON_ARRAY_H
#define PAWL_BSON_ARRAY_H

#include <bson/bson.h>

#ifndef BSON_APPEND_ARRAY_UNSAFE_BEGIN /* before libbson 2 */
#define bson_append_array_unsafe_begin bson_append_array_begin
#define BSON_APPEND_ARRAY_UNSAFE_BEGIN BSON_APPEND_ARRAY_BEGIN
#endif

#endif
