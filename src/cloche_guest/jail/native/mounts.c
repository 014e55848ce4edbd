#define _GNU_SOURCE
#include "mounts.h"

#include "places.h"
#include "step.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Headers of older systems lack these; the numbers are the same on every architecture. */
#define CALL_OPEN_TREE 428
#define CALL_MOVE_MOUNT 429
#define CALL_FSOPEN 430
#define CALL_FSCONFIG 431
#define CALL_FSMOUNT 432
#define CALL_MOUNT_SETATTR 442

#define TREE_CLONE 1
#define FROM_DESCRIPTOR 4
#define TO_DESCRIPTOR 0x40
#define RECURSIVE 0x8000
#define CLOSE_ON_EXEC 1
#define CONFIGURE_TEXT 1
#define CONFIGURE_CREATE 6

struct tree_attributes {
    uint64_t set;
    uint64_t clear;
    uint64_t propagation;
    uint64_t users;
};

int clone_tree(int place, bool recursive)
{
    unsigned flags = TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH | (recursive ? RECURSIVE : 0);
    long tree = syscall(CALL_OPEN_TREE, place, "", flags);
    return tree < 0 ? failed("open_tree") : (int)tree;
}

int set_tree_attributes(int tree, uint64_t attributes, bool recursive, int users)
{
    struct tree_attributes wanted = {.set = attributes, .users = (uint64_t)users};
    unsigned flags = AT_EMPTY_PATH | (recursive ? RECURSIVE : 0);
    if (syscall(CALL_MOUNT_SETATTR, tree, "", flags, &wanted, sizeof wanted) < 0)
        return failed("mount_setattr");
    return 0;
}

int attach_tree(int tree, const char *target)
{
    if (syscall(CALL_MOVE_MOUNT, tree, "", AT_FDCWD, target, FROM_DESCRIPTOR) < 0)
        return failed_at("move_mount", target);
    return 0;
}

int attach_tree_at(int tree, int place)
{
    if (syscall(CALL_MOVE_MOUNT, tree, "", place, "", FROM_DESCRIPTOR | TO_DESCRIPTOR) < 0)
        return failed("move_mount");
    return 0;
}

int mount_new(const char *kind, const char *target, unsigned long flags, const char *data)
{
    return mount(kind, target, kind, flags, data) < 0 ? failed_at("mount", target) : 0;
}

static int configure_and_mount(int context, const char *const options[][2])
{
    for (; (*options)[0] != NULL; options++)
        if (syscall(CALL_FSCONFIG, context, CONFIGURE_TEXT, (*options)[0], (*options)[1], 0) < 0)
            return failed_at("fsconfig", (*options)[0]);
    if (syscall(CALL_FSCONFIG, context, CONFIGURE_CREATE, NULL, NULL, 0) < 0)
        return failed("fsconfig");
    long mounted = syscall(CALL_FSMOUNT, context, CLOSE_ON_EXEC, TREE_NOSUID | TREE_NODEV | TREE_NOEXEC);
    return mounted < 0 ? failed("fsmount") : (int)mounted;
}

int detached_file_system(const char *kind, const char *const options[][2])
{
    long context = syscall(CALL_FSOPEN, kind, CLOSE_ON_EXEC);
    if (context < 0)
        return failed_at("fsopen", kind);
    int mounted = configure_and_mount((int)context, options);
    int reason = errno;
    close((int)context);
    errno = reason;
    if (mounted < 0)
        return -1;
    int root = openat(mounted, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    reason = errno;
    close(mounted);
    errno = reason;
    return root < 0 ? failed_at("open", kind) : root;
}

int make_mounts_private(void)
{
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? failed_at("mount", "/") : 0;
}

int make_folders(const char *path, mode_t mode)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof part) {
        errno = ENAMETOOLONG;
        return failed_at("mkdir", path);
    }
    memcpy(part, path, length + 1);
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, mode) < 0 && errno != EEXIST)
            return failed_at("mkdir", part);
        *slash = '/';
    }
    if (mkdir(part, mode) < 0 && errno != EEXIST)
        return failed_at("mkdir", part);
    return 0;
}

int write_file(const char *path, const char *text, int flags)
{
    int file = open(path, O_WRONLY | O_CLOEXEC | flags, 0644);
    if (file < 0)
        return failed_at("open", path);
    ssize_t length = (ssize_t)strlen(text);
    ssize_t written = write(file, text, (size_t)length);
    int reason = written < 0 ? errno : EIO;
    close(file);
    if (written == length)
        return 0;
    errno = reason;
    return failed_at("write", path);
}

int write_user_maps(const char *process, uid_t uid, gid_t gid, unsigned count)
{
    char path[64], users[64], groups[64];
    (void)snprintf(users, sizeof users, "%d %u %u", INSIDE, uid, count);
    (void)snprintf(groups, sizeof groups, "%d %u 1", INSIDE, gid);
    const char *const files[][2] = {{"setgroups", "deny"}, {"uid_map", users}, {"gid_map", groups}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(path, sizeof path, "/proc/%.20s/%s", process, files[i][0]);
        if (write_file(path, files[i][1], 0) < 0)
            return -1;
    }
    return 0;
}

int become_user(uid_t user)
{
    if (getuid() == user)
        return 0;
    if (syscall(SYS_setresuid, user, user, user) < 0)
        return failed("setresuid");
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0) /* else our own /proc files would belong to root */
        return failed("prctl DUMPABLE");
    return 0;
}
