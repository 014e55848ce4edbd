/* Folders of the host that are given to a jail: prepared outside of its view, where they still exist. */
#ifndef CLOCHE_FOLDERS_H
#define CLOCHE_FOLDERS_H

#include <stdbool.h>
#include <sys/types.h>

/* Until the jail's PID 1 ends or the host goes away. Never returns.
 *
 * `map_owner`: where root starts the jail, the guest's user (uid, gid outside) owns nothing on the host. A folder is
 * then mounted with its owner mapped to that user: inside, the files are the guest's; on disk, what it makes belongs
 * to the folder's owner. */
_Noreturn void serve_folders(int line, pid_t pid_one, bool map_owner, uid_t uid, gid_t gid);

#endif
