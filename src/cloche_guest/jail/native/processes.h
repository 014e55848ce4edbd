/* The processes of a seat, as its PID 1 sees them. */
#ifndef CLOCHE_PROCESSES_H
#define CLOCHE_PROCESSES_H

#include <stddef.h>
#include <sys/types.h>

/* Opens a view of all of them for ourselves: the guest's hides what it may not look into. Forgets all that is known.
 * 0, or -1 with errno. */
int look_at_processes(void);

/* The process behind a handle, as numbered in this namespace; -1 when it is gone. */
pid_t process_of(int handle);

/* Takes what has ended, ours by birth or by adoption, off the list of processes, and tells who asked. */
void reap_processes(void);

/* Tell on `end` how this process ends, or has ended; takes `end` over. */
void track_process(pid_t pid, int end);

/* Ends what runs here but `spared`; with `since` (clock ticks since boot; else -1) only what is younger. Branches live
 * below this namespace and can be seen from it, but they are sessions of their own. */
void end_processes(const pid_t *spared, size_t count, long long since);

#endif
