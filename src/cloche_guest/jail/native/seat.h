/* A seat: the namespaces of one session, held by an idle PID 1 that never runs guest code. */
#ifndef CLOCHE_SEAT_H
#define CLOCHE_SEAT_H

#include "packet.h"
#include "view.h"

struct seat {
    int pid_one; /* its handle */
    int workspace;
};

/* What came from the host for one. */
struct seat_parts {
    int control; /* the PID 1's line to the host */
    int tree;    /* the workspace that was prepared, or -1 */
    int network; /* an empty one, which no other seat is in */
    const int *mounts;
    size_t mount_count;
};

int make_seat(const struct packet *request, const struct trees *trees, const struct seat_parts *parts,
              struct seat *seat);

#endif
