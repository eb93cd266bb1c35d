/*
 * person: who runs a program, and where, for other people: "root@w1".
 *
 * One thread; asks the system's list of users.
 */
#ifndef PAWL_TOOLS_PERSON_H
#define PAWL_TOOLS_PERSON_H

#include <stddef.h>

void person_name(char *text, size_t size);

#endif
