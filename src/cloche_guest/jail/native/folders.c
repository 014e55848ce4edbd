#define _GNU_SOURCE
#include "folders.h"

#include "mounts.h"
#include "packet.h"
#include "step.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALL_PIDFD_OPEN 434

/* The process that a namespace needs while its maps are written. */
static _Noreturn void hold_user_namespace(int ready, int done)
{
    char byte = 'u';
    if (unshare(CLONE_NEWUSER) == 0 && write(ready, &byte, 1) == 1)
        (void)!read(done, &byte, 1); /* until the other end is closed */
    _exit(0);
}

static int map_and_open(pid_t holder, const struct stat *owner, uid_t uid, gid_t gid)
{
    char path[64], users[64], groups[64];
    (void)snprintf(users, sizeof users, "%u %u 1", owner->st_uid, uid);
    (void)snprintf(groups, sizeof groups, "%u %u 1", owner->st_gid, gid);
    (void)snprintf(path, sizeof path, "/proc/%d/uid_map", holder);
    if (write_file(path, users, 0) < 0)
        return -1;
    (void)snprintf(path, sizeof path, "/proc/%d/gid_map", holder);
    if (write_file(path, groups, 0) < 0)
        return -1;
    (void)snprintf(path, sizeof path, "/proc/%d/ns/user", holder);
    int users_namespace = open(path, O_RDONLY | O_CLOEXEC);
    return users_namespace < 0 ? failed_at("open", path) : users_namespace;
}

/* A namespace that exists for its maps alone: the folder's owner is the guest's user. */
static int owner_namespace(const struct stat *owner, uid_t uid, gid_t gid)
{
    int ready[2], done[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC) < 0)
        return failed("pipe");
    if (pipe2(done, O_CLOEXEC) < 0) {
        close(ready[0]);
        close(ready[1]);
        return failed("pipe");
    }
    pid_t holder = fork();
    if (holder == 0) {
        close(done[1]);
        hold_user_namespace(ready[1], done[0]);
    }
    close(ready[1]);
    close(done[0]);
    int users = -1;
    if (holder < 0)
        failed("fork");
    else if (read(ready[0], &byte, 1) != 1) {
        errno = EPERM;
        failed("unshare");
    } else
        users = map_and_open(holder, owner, uid, gid);
    int reason = errno;
    close(ready[0]);
    close(done[1]);
    if (holder > 0)
        waitpid(holder, NULL, 0);
    errno = reason;
    return users;
}

static int mapped_to_user(int tree, uint64_t attributes, const struct stat *owner, uid_t uid, gid_t gid)
{
    int users = owner_namespace(owner, uid, gid);
    if (users < 0)
        return -1;
    int result = set_tree_attributes(tree, attributes | TREE_IDMAP, false, users);
    int reason = errno;
    close(users);
    errno = reason;
    return result;
}

/* The folder (or plain file) that the host has looked at: on the way to it a link may have been put since. */
static int open_place(const struct packet *request, struct stat *status)
{
    const char *path = packet_text(request, "folder");
    int place = path == NULL ? -1 : open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (place < 0)
        return failed_at("open", path == NULL ? "" : path);
    if (fstat(place, status) < 0)
        failed_at("stat", path);
    else if ((long long)status->st_dev != packet_number_or(request, "device", -1) ||
             (long long)status->st_ino != packet_number_or(request, "inode", -1)) {
        errno = ESTALE;
        failed_at("open", path);
    } else if (!S_ISDIR(status->st_mode) && !S_ISREG(status->st_mode)) {
        errno = EINVAL;
        failed_at("neither a folder nor a plain file", path);
    } else
        return place;
    int reason = errno;
    close(place);
    errno = reason;
    return -1;
}

/* A detached mount of the folder. */
static int bind_folder(const struct packet *request, bool map_owner, uid_t uid, gid_t gid)
{
    uint64_t attributes = TREE_NOSUID | TREE_NODEV | (packet_number_or(request, "read_only", 0) ? TREE_RDONLY : 0);
    struct stat owner;
    int place = open_place(request, &owner);
    if (place < 0)
        return -1;
    int tree = clone_tree(place, !map_owner);
    int reason = errno;
    close(place);
    errno = reason;
    if (tree < 0)
        return -1;
    uid_t user = (uid_t)packet_number_or(request, "uid", uid); /* the session's own */
    int result = map_owner ? mapped_to_user(tree, attributes, &owner, user, gid)
                           : set_tree_attributes(tree, attributes, true, 0);
    if (result == 0)
        return tree;
    reason = errno;
    close(tree);
    errno = reason;
    return -1;
}

static _Noreturn void end_with(pid_t pid_one)
{
    int status = 1;
    waitpid(pid_one, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

_Noreturn void serve_folders(int line, pid_t pid_one, bool map_owner, uid_t uid, gid_t gid)
{
    static struct packet request;
    int end = (int)syscall(CALL_PIDFD_OPEN, pid_one, 0);
    struct pollfd watched[] = {{.fd = end, .events = POLLIN}, {.fd = line, .events = POLLIN}};
    if (end < 0)
        end_with(pid_one);
    for (;;) {
        if (poll(watched, 2, -1) < 0 && errno != EINTR)
            end_with(pid_one);
        if (watched[0].revents)
            end_with(pid_one);
        if (!watched[1].revents)
            continue;
        if (packet_receive(line, &request) <= 0) {
            watched[1].fd = -1; /* the host is gone, and PID 1 will be */
            continue;
        }
        int tree = bind_folder(&request, map_owner, uid, gid);
        if (tree >= 0) {
            struct reply reply = {.length = 0};
            reply_add(&reply, "ready#1");
            reply_send(line, &reply, &tree, 1);
            close(tree);
        } else
            send_failure(line, NULL, 0);
        packet_close(&request);
    }
}
