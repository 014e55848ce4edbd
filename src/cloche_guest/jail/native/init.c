/* The init of a jail: makes the namespaces and the view, starts the zygote, and makes seats. Ends with its host.
 *
 *     cloche-jail --control HOST,FOLDERS
 *
 *     cloche-jail --reap PATH...
 *     cloche-jail --join FILE...
 *
 * Each of the jail's processes leads a session of its own (setsid): a signal or a priority for a process group reaches
 * nobody else, also where numbers of others cannot be named.
 *
 * The numbers are sockets. On the first comes the configuration, then a request for each session; the second is for
 * folders of the host that are given to sessions. The other two are errands of the host; see reaper.h. */
#define _GNU_SOURCE
#include "folders.h"
#include "mounts.h"
#include "networks.h"
#include "packet.h"
#include "places.h"
#include "reaper.h"
#include "seat.h"
#include "step.h"
#include "view.h"
#include "zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

#define CALL_PIDFD_SEND_SIGNAL 424
#define CALL_CLOSE_RANGE 436

/* What a request brings: lines of the worker, the seat's line to the host, a workspace, mounts, and at the end its
 * cgroups. */
enum { WIRE, OUT, ERR, LINE, INNER, END, LINE_COUNT, CONTROL = LINE_COUNT, TREE };

enum { QUIET_MS = 1 }; /* how long nobody must have asked for anything before something is made ahead */

static struct packet configuration;
static struct trees trees;

/* -- into the namespaces ----------------------------------------------------------------------------------------- */

/* As an ordinary user: we stay outside of the view, with the host's files, and give folders of them to the jail. */
static int split_off_as_user(int host, int folders, uid_t uid, gid_t gid)
{
    if (unshare(NAMESPACES) < 0)
        return failed("unshare");
    if (write_user_maps("self", uid, gid, 1) < 0)
        return -1;
    long pid = syscall(SYS_clone, CLONE_NEWNS | SIGCHLD, NULL, NULL, NULL, 0);
    if (pid < 0)
        return failed("clone");
    if (pid > 0) {
        close(host); /* its end must mean that the init has ended */
        serve_folders(folders, (pid_t)pid, false, uid, gid);
    }
    if (setsid() < 0)
        return failed("setsid");
    return open_trees(&configuration, &trees);
}

/* Becomes the one user of the namespace, keeping the rights over it. */
static int leave_root(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3];
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
        return failed("prctl KEEPCAPS");
    if (setresgid(INSIDE, INSIDE, INSIDE) < 0 || setresuid(INSIDE, INSIDE, INSIDE) < 0)
        return failed("setresuid");
    if (syscall(SYS_capget, &head, held) < 0)
        return failed("capget");
    for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
        held[i].effective = held[i].permitted; /* emptied by the change of user */
    if (syscall(SYS_capset, &head, held) < 0)
        return failed("capset");
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0) /* else our own /proc files would belong to root */
        return failed("prctl DUMPABLE");
    return 0;
}

static _Noreturn void stay_root(int mapped, pid_t pid, int folders, uid_t uid, gid_t gid)
{
    char process[16];
    (void)snprintf(process, sizeof process, "%d", pid);
    unsigned count = (unsigned)packet_number_or(&configuration, "users", 1);
    if (write_user_maps(process, uid, gid, count) == 0)
        (void)!write(mapped, "m", 1); /* else the end of the pipe says so */
    close(mapped);
    serve_folders(folders, pid, true, uid, gid);
}

/* Makes the namespaces in the name of the guests' user. What the kernel counts in a user namespace it counts for the
 * one who made it too, and root's allowance is not the guests' to use up. Files are opened as root all the while. */
static long clone_in_the_name_of(uid_t uid)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &head, held) < 0)
        return failed("capget");
    if (syscall(SYS_setresuid, -1, uid, -1) < 0)
        return failed("setresuid");
    syscall(SYS_setfsuid, 0);
    if (syscall(SYS_setfsuid, -1) != 0) {
        errno = EPERM;
        return failed("setfsuid");
    }
    if (syscall(SYS_capset, &head, held) < 0) /* some systems let only the mighty make user namespaces */
        return failed("capset");
    long pid = syscall(SYS_clone, NAMESPACES | SIGCHLD, NULL, NULL, NULL, 0);
    if (pid < 0)
        return failed("clone");
    if (pid > 0 && syscall(SYS_setresuid, -1, 0, -1) < 0)
        return failed("setresuid");
    return pid;
}

/* As root: become somebody else, but only after the trees are open: an interpreter may lie below a folder that
 * nobody else can enter. */
static int split_off_as_root(int host, int folders, uid_t uid, gid_t gid)
{
    int mapped[2];
    char byte;
    if (setgroups(0, NULL) < 0) /* inside they could not be given up any more */
        return failed("setgroups");
    if (pipe2(mapped, O_CLOEXEC) < 0)
        return failed("pipe");
    long pid = clone_in_the_name_of(uid);
    if (pid < 0)
        return -1;
    if (pid > 0) {
        close(host);
        close(mapped[0]);
        stay_root(mapped[1], (pid_t)pid, folders, uid, gid);
    }
    close(mapped[1]);
    if (setsid() < 0)
        return failed("setsid");
    if (read(mapped[0], &byte, 1) != 1) {
        errno = EPERM;
        return failed("the user map could not be written");
    }
    close(mapped[0]);
    return open_trees(&configuration, &trees) < 0 ? -1 : leave_root();
}

static int split_off(int host, int folders)
{
    long long uid, gid;
    if (!packet_number(&configuration, "uid", &uid) || !packet_number(&configuration, "gid", &gid)) {
        errno = EINVAL;
        return failed("configuration");
    }
    if (getuid() == (uid_t)uid)
        return split_off_as_user(host, folders, (uid_t)uid, (gid_t)gid);
    return split_off_as_root(host, folders, (uid_t)uid, (gid_t)gid);
}

/* -- sessions ---------------------------------------------------------------------------------------------------- */

/* Tells the host that a request failed, and why (errno). That one alone: others need not suffer. */
static void refuse(int host, const struct packet *request)
{
    int reason = errno;
    while (send_failure(host, "failed", packet_number_or(request, "id", 0)) < 0) {
        if (!is_passing(errno))
            _exit(0); /* the host is gone */
        errno = reason;
    }
}

/* Makes the seat and hands everything to the zygote; -1 with errno where that cannot be done. */
static int seat_session(int zygote, struct packet *request)
{
    struct seat seat;
    size_t groups = (size_t)packet_number_or(request, "groups", 0);
    /* what is passed on has two handles of the seat in place of what came for the seat itself */
    if (groups > request->descriptor_count || request->descriptor_count - groups < CONTROL + 1 ||
        LINE_COUNT + 2 + groups > MAX_DESCRIPTORS) {
        errno = EINVAL;
        return failed("request");
    }
    size_t own = request->descriptor_count - groups;
    const int *given = request->descriptors;
    bool has_tree = own > TREE && packet_text(request, "workspace") != NULL;
    size_t mounts = TREE + (has_tree ? 1 : 0);
    struct seat_parts parts = {
        .control = given[CONTROL],
        .tree = has_tree ? given[TREE] : -1,
        .network = take_network(),
        .mounts = given + mounts,
        .mount_count = own > mounts ? own - mounts : 0,
    };
    if (parts.network < 0)
        return -1;
    if (make_seat(request, &trees, &parts, &seat) < 0) {
        int reason = errno;
        close(parts.network); /* somebody may still be in it */
        errno = reason;
        return -1;
    }
    int passed[MAX_DESCRIPTORS];
    memcpy(passed, given, LINE_COUNT * sizeof *passed);
    passed[LINE_COUNT] = seat.pid_one;
    passed[LINE_COUNT + 1] = seat.workspace;
    memcpy(passed + LINE_COUNT + 2, given + own, groups * sizeof *passed);
    int result = packet_send(zygote, request->fields, request->length, passed, LINE_COUNT + 2 + groups);
    int reason = errno;
    if (result < 0)
        syscall(CALL_PIDFD_SEND_SIGNAL, seat.pid_one, SIGKILL, NULL, 0);
    lend_network(parts.network, seat.pid_one);
    close(seat.workspace);
    errno = reason;
    return result;
}

static _Noreturn void serve(int host, int zygote)
{
    static struct packet request;
    struct pollfd watched[] = {{.fd = host, .events = POLLIN}, {.fd = zygote, .events = POLLIN}};
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int ready = poll(watched, 2, networks_are_ready() ? -1 : QUIET_MS);
        if (ready < 0 && errno != EINTR)
            _exit(1);
        if (ready == 0)
            prepare_network();
        if (ready <= 0)
            continue;
        if (watched[1].revents)
            _exit(1); /* the zygote never speaks to us: it is gone */
        if (!watched[0].revents)
            continue;
        int heard = packet_receive(host, &request);
        if (heard == 0 || (heard < 0 && errno != EMSGSIZE))
            _exit(0);
        int result = heard < 0 ? -1
                     : packet_number_or(&request, "again", 0) /* another worker in a seat that is still there */
                         ? packet_send(zygote, request.fields, request.length, request.descriptors,
                                       request.descriptor_count)
                         : seat_session(zygote, &request);
        if (result < 0)
            refuse(host, &request); /* should the zygote be gone, the next look at its line says so */
        packet_close(&request);
    }
}

static int start(int host, int folders, int *zygote)
{
    struct zygote_files files;
    unsigned int allow = SECCOMP_RET_ALLOW;
    if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &allow) < 0)
        return failed("seccomp");
    if (load_zygote_files(&configuration, &files) < 0 || split_off(host, folders) < 0 || build_view(&trees) < 0)
        return -1;
    close(folders);
    struct reply reply = {.length = 0};
    reply_add(&reply, "standing#1"); /* the wall is up; what follows is Python's start */
    if (reply_send(host, &reply, NULL, 0) < 0)
        return -1;
    *zygote = start_zygote(&configuration, &files, host);
    return *zygote < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    int host, folders, zygote;
    if (argc > 1 && strcmp(argv[1], "--reap") == 0)
        return reap(argc - 2, argv + 2);
    if (argc > 1 && strcmp(argv[1], "--join") == 0)
        return join(argc - 2, argv + 2);
    if (argc != 3 || sscanf(argv[2], "%d,%d", &host, &folders) != 2)
        return 2;
    /* what others of the host's process meant for their own children */
    if (syscall(CALL_CLOSE_RANGE, (host > folders ? host : folders) + 1, ~0U, 0) < 0)
        return 2;
    if (fcntl(host, F_SETFD, FD_CLOEXEC) < 0 || fcntl(folders, F_SETFD, FD_CLOEXEC) < 0)
        return 2;
    if (packet_receive(host, &configuration) <= 0)
        return 0;
    if (start(host, folders, &zygote) < 0) {
        send_failure(host, NULL, 0);
        return 1;
    }
    serve(host, zygote);
}
