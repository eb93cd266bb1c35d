/* config_fixture: options that were loaded, from a command line, the environment, or files in a folder of their own. */
#ifndef PAWL_TESTS_CONFIG_FIXTURE_H
#define PAWL_TESTS_CONFIG_FIXTURE_H

#include "config/config.h"
#include "config/options.h"
#include "unit_test.h"

#define CONFIG_TEST(name) TEST_WITH(name, NULL, clear)
#define LOAD(program, ...) load(program, (char *[]){"x", ##__VA_ARGS__, NULL})

extern struct config config;
extern struct error error;
extern char folder[];

enum config_status load(enum config_program program, char **argv);
/* The path of a file in the folder, valid until the next call. */
const char *file_with(const char *name, const char *text);
void assert_lacks(const char *text, const char *part);
/* The options are wrong, and the message contains each part. */
void assert_wrong(enum config_status status, const char *part, const char *other);
int clear(void **state);

#endif
