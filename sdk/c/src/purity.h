/* Functions of the C library that have no place in a plugin: pintle build includes this before each of its sources, so that the compiler
 * names the line that calls one. */
#ifndef PINTLE_PURITY_H
#define PINTLE_PURITY_H

#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PINTLE_UNAVAILABLE(instead) \
    __attribute__((__unavailable__("the same view must give the same outcome: " instead)))
#define PINTLE_NO_CLOCK PINTLE_UNAVAILABLE("use pintle_now(lister)")
#define PINTLE_NO_CHANCE \
    PINTLE_UNAVAILABLE("derive what must differ from names and uids, for example with pintle_hash, or use generateName")

PINTLE_NO_CLOCK time_t time(time_t *);
PINTLE_NO_CLOCK clock_t clock(void);
PINTLE_NO_CLOCK int clock_gettime(clockid_t, struct timespec *);
PINTLE_NO_CLOCK int gettimeofday(struct timeval *__restrict, void *__restrict);
PINTLE_NO_CHANCE int rand(void);
PINTLE_NO_CHANCE int rand_r(unsigned *);
PINTLE_NO_CHANCE long random(void);
PINTLE_NO_CHANCE int getentropy(void *, size_t);

#endif
