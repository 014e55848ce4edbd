/* Network namespaces of seats: empty, and each for one seat at a time, so that names of abstract sockets are its own.
 *
 * Making one, and taking one apart, takes as long as all the rest of a seat. So they are made ahead, and used again when
 * everything that ran in them has ended. */
#ifndef CLOCHE_NETWORKS_H
#define CLOCHE_NETWORKS_H

#include <stdbool.h>

/* One that nobody is in; the caller's. -1 with errno and the failed step set. */
int take_network(void);

/* A seat is in it now, until the process behind `pid_one` has ended; takes both descriptors over. */
void lend_network(int network, int pid_one);

/* Whether the next seats need not wait for theirs. */
bool networks_are_ready(void);

/* While nobody waits: have one more. */
void prepare_network(void);

#endif
