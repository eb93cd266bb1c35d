/*
 * cmocka_range.h: cmocka's assertion that a non-negative number is in a range, under its name in cmocka 2. Include it after
 * cmocka.h.
 */
#ifndef PAWL_TESTS_CMOCKA_RANGE_H
#define PAWL_TESTS_CMOCKA_RANGE_H

#ifndef assert_uint_in_range /* before cmocka 2 */
#define assert_uint_in_range assert_in_range
#endif

#endif
