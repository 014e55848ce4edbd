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

/* What connects a worker with the host, in the order in which it has them: from 3 on. */
enum { WIRE, OUT, ERR, LINE, INNER, LINES };

struct confinement {
    int below;    /* the seat is a branch's, whose user namespace it shares: else it could not be branched again */
    int landlock; /* whether to use it */
    int user;     /* who the session is in the namespace around its own; INSIDE where it shares its user */
    int spare;    /* what follows is aligned */
    const struct limit *limits;
    size_t limit_count;
    struct sock_fprog filter;
    struct sock_fprog refusals; /* a second one, for when nothing is passed on any more; may be empty */
};

/* The worker's end of everything: its lines from 3 on, captured output also on 1 and 2, nothing on 0, nothing else. */
int arrange_descriptors(const int lines[LINES]);

/* A user namespace of its own, and then no right, no look from outside, no file but the view's, bounded resources and
 * a list of system calls; its PID 1 is sent the listener that decides about some of them, and INNER is closed. The
 * order matters at every step. */
int confine(const struct confinement *how);

/* One more Landlock domain for the caller: from now on it, and what it starts, can look into nobody who does not have it,
 * such as those that were forked before. There can be 16, one inside the other; then E2BIG. */
int stand_apart(void);

/* What the kernel tells a process of its mounts is those of its own mount namespace that lie below its root. So we go on
 * in another namespace, with the root of the seat's: the files are the same, and the list, with host paths, devices and
 * numbers of users in it, is empty. `key`: as below. */
int hide_mounts(long key);

/* Gives up the capabilities that are held; where no new privileges can be gained, for good. `key` goes along in a
 * register that the call does not use: for a PID 1 that has to approve it. */
int clear_capabilities(long key);

#endif
