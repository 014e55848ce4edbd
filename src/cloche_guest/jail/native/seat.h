/* A seat: the namespaces of one session, held by an idle PID 1 that never runs guest code. */
#ifndef CLOCHE_SEAT_H
#define CLOCHE_SEAT_H

#include "packet.h"
#include "view.h"

struct seat {
    int pid_one; /* its handle */
    int workspace;
};

/* `control` is the PID 1's line to the host, `tree` the workspace that was prepared, or -1. */
int make_seat(const struct packet *request, const struct trees *trees, int control, int tree, struct seat *seat);

#endif
