#define _GNU_SOURCE
#include "branch_seat.h"

#include "mounts.h"
#include "pid_one.h"
#include "places.h"
#include "step.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALL_PIDFD_OPEN 434

enum { FOLDERS = 2, NAMESPACES = 4 };

static _Noreturn void give_up(int report)
{
    send_failure(report, NULL, 0);
    _exit(1);
}

static _Noreturn void become_pid_one(const struct packet *request, const struct trees *trees, int control, int report)
{
    int folders[FOLDERS];
    struct reply reply = {.length = 0};
    if (setsid() < 0) {
        failed("setsid");
        give_up(report);
    }
    if (write_user_maps("self", INSIDE, INSIDE, 1) < 0 || make_mounts_private() < 0 ||
        furnish_branch(request, trees, folders) < 0)
        give_up(report);
    reply_add(&reply, "ready#1");
    if (reply_send(report, &reply, folders, FOLDERS) < 0)
        _exit(1);
    serve_seat(control, trees);
}

/* In a process between: enter the worker's user namespace and make the PID 1 in a new one below. It ends at once; what
 * it made belongs to the PID 1 that we both were forked from. */
static _Noreturn void go_below(const struct packet *request, const struct trees *trees, int control, int users,
                               int report)
{
    struct reply reply = {.length = 0};
    /* EINVAL: we are there already, as the worker was put into the seat of a branch */
    if (users >= 0 && setns(users, CLONE_NEWUSER) < 0 && errno != EINVAL) {
        failed("setns");
        give_up(report);
    }
    if (become_user(INSIDE) < 0) /* the session's: ours may be another, who is not known there */
        give_up(report);
    long pid = syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | SIGCHLD, NULL, NULL, NULL, 0);
    if (pid == 0)
        become_pid_one(request, trees, control, report);
    if (pid < 0) {
        failed("clone");
        give_up(report);
    }
    reply_add(&reply, "pid#%ld", pid);
    _exit(reply_send(report, &reply, NULL, 0) < 0);
}

/* Two speak, in any order: who made the PID 1 says its number, and it sends its folders. */
static int hear_both(int report, long long *pid, int *folders)
{
    static struct packet said;
    bool ready = false;
    *pid = 0;
    while (!ready || *pid == 0) {
        int heard = packet_receive(report, &said);
        const char *step = heard == 1 ? packet_text(&said, "step") : NULL;
        if (heard != 1 || step != NULL) {
            if (ready)
                for (int i = 0; i < FOLDERS; i++)
                    close(folders[i]);
            errno = step != NULL ? (int)packet_number_or(&said, "errno", EIO) : EIO;
            return failed(step != NULL ? step : "the seat was not made");
        }
        if (said.descriptor_count == FOLDERS) {
            memcpy(folders, said.descriptors, FOLDERS * sizeof *folders);
            ready = true;
        }
        (void)packet_number(&said, "pid", pid);
    }
    return 0;
}

/* A handle of the new PID 1 and of each of its namespaces. It is our child: its number is its own until we reap it. */
static int open_handles(pid_t pid, int handles[1 + NAMESPACES])
{
    static const char *const names[NAMESPACES] = {"user", "net", "mnt", "pid"};
    char path[64];
    handles[0] = (int)syscall(CALL_PIDFD_OPEN, pid, 0);
    if (handles[0] < 0)
        return failed("pidfd_open");
    for (int i = 0; i < NAMESPACES; i++) {
        (void)snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, names[i]);
        handles[1 + i] = open(path, O_RDONLY | O_CLOEXEC);
        if (handles[1 + i] < 0) {
            int reason = errno;
            for (int j = 0; j <= i; j++)
                close(handles[j]);
            kill(pid, SIGKILL);
            errno = reason;
            return failed_at("open", path);
        }
    }
    return 0;
}

int make_branch_seat(const struct packet *request, const struct trees *trees, int control, int users,
                     int handles[BRANCH_HANDLES])
{
    int report[2], *folders = handles + 1 + NAMESPACES;
    long long pid;
    if (packet_pair(report) < 0)
        return failed("socketpair");
    pid_t helper = fork();
    if (helper == 0) {
        close(report[0]);
        go_below(request, trees, control, users, report[1]);
    }
    int result = helper < 0 ? failed("fork") : 0;
    close(report[1]);
    if (result == 0)
        result = hear_both(report[0], &pid, folders);
    int reason = errno;
    close(report[0]);
    if (helper > 0)
        waitpid(helper, NULL, 0);
    errno = reason;
    if (result < 0)
        return -1;
    if (open_handles((pid_t)pid, handles) == 0)
        return 0;
    reason = errno;
    for (int i = 0; i < FOLDERS; i++)
        close(folders[i]);
    errno = reason;
    return -1;
}
