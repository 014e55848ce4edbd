/* Making the seat of a branch: namespaces below those of its parent, with empty folders of its own.
 *
 * A worker without capabilities can enter them all the same: a process has every right over a user namespace whose
 * parent is its own and whose owner is its user. So the new one is made below the worker's, by a process that goes
 * there first. */
#ifndef CLOCHE_BRANCH_SEAT_H
#define CLOCHE_BRANCH_SEAT_H

#include "packet.h"
#include "view.h"

/* The new PID 1, its user, mount and process namespaces, its workspace, its private folder. */
enum { BRANCH_HANDLES = 7 };

/* `users` is the worker's user namespace; -1 where it is our own: in the seat of a branch. 0, or -1 with errno. */
int make_branch_seat(const struct packet *request, const struct trees *trees, int control, int users,
                     int handles[BRANCH_HANDLES]);

#endif
