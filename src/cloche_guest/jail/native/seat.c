#define _GNU_SOURCE
#include "seat.h"

#include "mounts.h"
#include "pid_one.h"
#include "places.h"
#include "step.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALL_PIDFD_SEND_SIGNAL 424

static _Noreturn void become_pid_one(const struct packet *request, const struct trees *trees,
                                     const struct seat_parts *parts, int report)
{
    struct reply reply = {.length = 0};
    int workspace = -1;
    if (setsid() < 0)
        failed("setsid");
    else if (setns(parts->network, CLONE_NEWNET) < 0)
        failed("setns");
    else if (make_mounts_private() == 0)
        workspace = furnish_seat(request, trees, parts->tree);
    if (workspace >= 0 && attach_mounts(request, parts->mounts, parts->mount_count) < 0)
        workspace = -1;
    if (workspace >= 0 && cover_parts(request) < 0)
        workspace = -1;
    if (workspace >= 0 && sethostname(HOST_NAME, strlen(HOST_NAME)) < 0) {
        failed("sethostname");
        workspace = -1;
    }
    if (workspace < 0) {
        send_failure(report, NULL, 0);
        _exit(1);
    }
    reply_add(&reply, "ready#1");
    if (reply_send(report, &reply, &workspace, 1) < 0)
        _exit(1);
    serve_seat(parts->control, trees);
}

/* What the seat's PID 1 says of its folders: a descriptor of the workspace, or why there is none. */
static int hear_ready(int report)
{
    static struct packet answer;
    int heard = packet_receive(report, &answer);
    if (heard == 1 && answer.descriptor_count == 1)
        return answer.descriptors[0];
    const char *why = heard == 1 ? packet_text(&answer, "step") : NULL;
    errno = heard == 1 ? (int)packet_number_or(&answer, "errno", EIO) : EIO;
    return failed(why != NULL ? why : "the seat was not made");
}

int make_seat(const struct packet *request, const struct trees *trees, const struct seat_parts *parts,
              struct seat *seat)
{
    unsigned long flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS; /* its network is there */
    int report[2];
    if (packet_pair(report) < 0)
        return failed("socketpair");
    long pid = syscall(SYS_clone, flags | CLONE_PIDFD | SIGCHLD, NULL, &seat->pid_one, NULL, 0);
    if (pid == 0)
        become_pid_one(request, trees, parts, report[1]);
    int reason = errno;
    close(report[1]);
    if (pid < 0) {
        close(report[0]);
        errno = reason;
        return failed("clone");
    }
    seat->workspace = hear_ready(report[0]);
    reason = errno;
    close(report[0]);
    if (seat->workspace >= 0)
        return 0;
    syscall(CALL_PIDFD_SEND_SIGNAL, seat->pid_one, SIGKILL, NULL, 0);
    close(seat->pid_one);
    errno = reason;
    return -1;
}
