/* What a worker gives up once it is in its seat. The same for a worker that was forked from a zygote (library.c) and
 * for the first session of a process, which is started in place (first.c). Every function returns 0, or -1 with errno
 * and the failed step set. */
#ifndef CLOCHE_CONFINE_H
#define CLOCHE_CONFINE_H

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

struct limit {
    uint64_t resource; /* RLIMIT_* */
    uint64_t amount;
};

struct confinement {
    int landlock; /* whether to use it */
    const struct limit *limits;
    size_t limit_count;
    struct sock_fprog filter;
};

/* The worker's end of everything: wire on 3, captured output on 4 and 5 and on 1 and 2, nothing on 0, nothing else. */
int arrange_descriptors(int wire, int out, int err);

/* A user namespace of its own, and then no right, no look from outside, no file but the view's, bounded resources and
 * a list of system calls. The order matters at every step. */
int confine(const struct confinement *how);

#endif
