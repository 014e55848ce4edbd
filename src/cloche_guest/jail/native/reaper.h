/* Two errands about cgroups for which a host starts a process. */
#ifndef CLOCHE_REAPER_H
#define CLOCHE_REAPER_H

/* Waits until its standard input ends, as it does when the host ends however it ends, and removes what that left:
 * files, folders, and folders of cgroups with all that runs in them. The paths are those given and one a line from the input. */
int reap(int count, char **paths);

/* Joins the cgroups whose files are given, to see whether that can be done. */
int join(int count, char **paths);

#endif
