/* Mount trees by descriptor, and small files. Every function returns -1 with errno and the failed step set. */
#ifndef CLOCHE_MOUNTS_H
#define CLOCHE_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* As <linux/mount.h> has them; its constants clash with those of <sys/mount.h> on some systems. */
enum { TREE_RDONLY = 1, TREE_NOSUID = 2, TREE_NODEV = 4, TREE_NOEXEC = 8, TREE_IDMAP = 0x00100000 };

/* A detached copy of the mount, or with `recursive` of all mounts, below an open folder or file. */
int clone_tree(int place, bool recursive);

/* Attributes of a detached tree; `users` is a user namespace for TREE_IDMAP, else 0. */
int set_tree_attributes(int tree, uint64_t attributes, bool recursive, int users);

/* Puts a detached tree at `target`. */
int attach_tree(int tree, const char *target);

/* Puts a detached tree over an open folder or file. */
int attach_tree_at(int tree, int place);

/* mount(2) of a new file system. */
int mount_new(const char *kind, const char *target, unsigned long flags, const char *data);

/* A new file system that has no place: only who holds its descriptor can reach it. `options` end with a NULL. */
int detached_file_system(const char *kind, const char *const options[][2]);

/* Nothing that is mounted here spreads to others, nor theirs to us. */
int make_mounts_private(void);

/* mkdir -p. */
int make_folders(const char *path, mode_t mode);

/* Writes a whole file; `flags` beyond O_WRONLY. */
int write_file(const char *path, const char *text, int flags);

/* Maps `count` users and one group of a user namespace of our making: INSIDE and what follows to `uid` and what
 * follows. */
int write_user_maps(const char *process, uid_t uid, gid_t gid, unsigned count);

/* Becomes another user of this user namespace, keeping the capabilities over it. */
int become_user(uid_t user);

#endif
