/*
 * cmocka_range.h: cmocka's assertion that a number that is not negative is in a range, under the name of cmocka 2. To be included after
 * cmocka.h.
 */
#ifndef PAWL_TESTS_CMOCKA_RANGE_H
#define PAWL_TESTS_CMOCKA_RANGE_H

#ifndef assert_uint_in_range /* before cmocka 2 */
#define assert_uint_in_range assert_in_range
#endif

#endif
