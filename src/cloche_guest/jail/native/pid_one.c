#define _GNU_SOURCE
#include "pid_one.h"

#include "branch_seat.h"
#include "mounts.h"
#include "packet.h"
#include "places.h"
#include "processes.h"
#include "step.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CALL_CLOSE_RANGE 436

enum { HOST_LINE = 3, HANDED_OVER = 2 };

/* Our time is nobody's: a guest that makes us refuse without end gets this many answers in each window, and waits. */
enum { MAX_REFUSALS = 20, WINDOW_MS = 100 };

/* What this PID 1 knows. A branch's PID 1 is forked from its parent's and starts with a state of its own. */
static struct {
    const struct trees *trees;
    int bell;      /* a child has ended */
    int inner;     /* on which a worker sends its listener */
    int listener;  /* on which the kernel asks about the guest's calls */
    int users;     /* the worker's user namespace, below which those of branches are made */
    __u64 key;     /* with which the calls of the process that enters a branch's seat come; 0: no call is approved */
    size_t due;    /* which of them is next */
    __u32 entrant; /* that process, once it has made the first */
    bool branched; /* others live below this namespace */
    long long window; /* when the current one began, in milliseconds */
    int refused;      /* calls since then */
} state;

static struct packet message;

/* After a failed send: ends us where the host is gone, and everything in the namespace with us. */
static void go_on_without_room(void)
{
    if (!is_passing(errno))
        _exit(0);
}

static void answer(const char *field)
{
    struct reply reply = {.length = 0};
    reply_add(&reply, "%s#1", field);
    while (reply_send(HOST_LINE, &reply, NULL, 0) < 0)
        go_on_without_room();
}

static void answer_failure(void)
{
    int reason = errno;
    while (send_failure(HOST_LINE, NULL, 0) < 0) {
        go_on_without_room();
        errno = reason;
    }
}

static void answer_with(const char *field, const int *descriptors, size_t count)
{
    struct reply reply = {.length = 0};
    reply_add(&reply, "%s#1", field);
    if (reply_send(HOST_LINE, &reply, descriptors, count) < 0) {
        go_on_without_room();
        answer_failure();
    }
    for (size_t i = 0; i < count; i++)
        close(descriptors[i]);
}

static void drop(int *descriptor)
{
    if (*descriptor >= 0)
        close(*descriptor);
    *descriptor = -1;
}

/* A descriptor of the message that is ours from now on. */
static int take(size_t index)
{
    if (index >= message.descriptor_count)
        return -1;
    int taken = message.descriptors[index];
    message.descriptors[index] = -1;
    return taken;
}

/* -- approval ---------------------------------------------------------------------------------------------------- */

/* A new worker's filter; the old worker is dead. It comes before any code of the guest's has run. */
static void take_listener(void)
{
    static struct packet said;
    if (packet_receive(state.inner, &said) == 1 && said.descriptor_count == HANDED_OVER) {
        drop(&state.listener);
        drop(&state.users);
        state.listener = said.descriptors[0];
        state.users = said.descriptors[1];
    } else
        packet_close(&said);
    drop(&state.inner);
}

/* Whether this is what the process that enters a branch's seat does next: go into the four namespaces, hide its mounts
 * on the way, then give up what came with them. Once each, in this order, and all by one process. Any process of the family can make such a call;
 * which of them is meant is told by the key, that the host has sent to the worker and to us alone. */
static bool is_due(const struct seccomp_notif *asked)
{
    static const struct {
        int number;
        int argument; /* that must be `value`; -1: none */
        __u64 value;
    } steps[] = {
        {SYS_setns, 1, CLONE_NEWUSER},  {SYS_setns, 1, CLONE_NEWNET}, {SYS_setns, 1, CLONE_NEWNS},
        {SYS_unshare, 0, CLONE_NEWNS}, {SYS_chroot, -1, 0},          {SYS_setns, 1, CLONE_NEWPID},
        {SYS_capset, -1, 0},
    };
    const struct seccomp_data *call = &asked->data;
    if (state.key == 0 || call->args[2] != state.key || (state.due > 0 && asked->pid != state.entrant))
        return false;
    if (state.due >= sizeof steps / sizeof *steps || call->nr != steps[state.due].number)
        return false;
    int argument = steps[state.due].argument;
    return argument < 0 || call->args[argument] == steps[state.due].value;
}

static long long milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* How long calls must wait for their answers; 0: not at all. Never while a branch is made: then one of them is due. */
static int pause_before_answers(void)
{
    if (state.refused < MAX_REFUSALS || state.key != 0)
        return 0;
    long long left = state.window + WINDOW_MS - milliseconds();
    if (left > 0)
        return (int)left;
    state.refused = 0;
    return 0;
}

static void count_refusal(void)
{
    if (state.refused == 0)
        state.window = milliseconds();
    state.refused++;
}

static void decide(short events)
{
    struct seccomp_notif asked;
    struct seccomp_notif_resp decision;
    if (!(events & POLLIN)) { /* nobody is left under this filter */
        drop(&state.listener);
        drop(&state.users);
        return;
    }
    memset(&asked, 0, sizeof asked);
    memset(&decision, 0, sizeof decision);
    if (ioctl(state.listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0)
        return; /* who asked is gone */
    decision.id = asked.id;
    bool approved = is_due(&asked);
    if (approved)
        decision.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else {
        decision.error = -EPERM;
        count_refusal();
    }
    /* fails where who asked is gone: then the call was not made */
    if (ioctl(state.listener, SECCOMP_IOCTL_NOTIF_SEND, &decision) == 0 && approved) {
        state.entrant = asked.pid;
        state.due++;
    }
}

/* -- orders ------------------------------------------------------------------------------------------------------ */

static void clear(void)
{
    pid_t spared[MAX_DESCRIPTORS];
    for (size_t i = 0; i < message.descriptor_count; i++)
        spared[i] = process_of(message.descriptors[i]);
    long long since = packet_number_or(&message, "since", -1);
    if (message.descriptor_count == 0 && !state.branched && since < 0)
        kill(-1, SIGKILL); /* all of the namespace but ourselves, at one stroke; there may be nobody */
    else
        end_processes(spared, message.descriptor_count, since);
    answer("cleared");
}

static int open_folder(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return folder < 0 ? failed_at("open", path) : folder;
}

/* Makes the seat of a branch: its PID 1, its namespaces and empty folders go to the host, and our private folder. */
static void branch(void)
{
    int handles[BRANCH_HANDLES + 1];
    state.branched = true;
    if (state.inner >= 0)
        take_listener(); /* a worker that is just coming up */
    if (message.descriptor_count < 1 ||
        make_branch_seat(&message, state.trees, message.descriptors[0], state.users, handles) < 0) {
        answer_failure();
        return;
    }
    handles[BRANCH_HANDLES] = open_folder(PRIVATE);
    if (handles[BRANCH_HANDLES] >= 0) {
        answer_with("branched", handles, BRANCH_HANDLES + 1);
        return;
    }
    answer_failure();
    for (size_t i = 0; i < BRANCH_HANDLES; i++)
        close(handles[i]);
}

/* A place for copies of the session's files that the session cannot reach. */
static void store(void)
{
    char size[32], files[32], user[32], group[32];
    (void)snprintf(size, sizeof size, "%lld", packet_number_or(&message, "bytes", 1));
    (void)snprintf(files, sizeof files, "%lld", packet_number_or(&message, "files", 1));
    (void)snprintf(user, sizeof user, "%lld", packet_number_or(&message, "user", INSIDE));
    (void)snprintf(group, sizeof group, "%d", INSIDE);
    const char *const options[][2] = {{"size", size}, {"nr_inodes", files}, {"mode", "700"},
                                      {"uid", user},  {"gid", group},      {NULL, NULL}};
    int handles[2];
    if ((handles[0] = detached_file_system("tmpfs", options)) < 0) {
        answer_failure();
        return;
    }
    if ((handles[1] = open_folder(PRIVATE)) < 0) {
        answer_failure();
        close(handles[0]);
        return;
    }
    answer_with("stored", handles, 2);
}

/* Whether the host waits for an answer to the message. */
static bool is_answered(void)
{
    static const char *const names[] = {"kill", "allow", "branch", "store"};
    long long number;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (packet_number(&message, names[i], &number))
            return true;
    return false;
}

static void hear(void)
{
    long long number;
    int heard = packet_receive(HOST_LINE, &message);
    if (heard == 0 || (heard < 0 && errno != EMSGSIZE))
        _exit(0);
    if (heard < 0) { /* its descriptors found no room */
        if (is_answered())
            answer_failure();
        return;
    }
    if (packet_number(&message, "inner", &number)) {
        drop(&state.inner);
        state.inner = take(0);
    } else if (packet_number(&message, "kill", &number))
        clear();
    else if (packet_number(&message, "wake", &number)) {
        kill(-1, SIGCONT); /* there may be nobody */
        answer("woken");
    } else if (packet_number(&message, "allow", &number)) {
        state.key = (__u64)number;
        state.due = 0;
        answer("allowed");
    } else if (packet_number(&message, "track", &number) && message.descriptor_count == 2)
        track_process(process_of(message.descriptors[0]), take(1));
    else if (packet_number(&message, "branch", &number))
        branch();
    else if (packet_number(&message, "store", &number))
        store();
    packet_close(&message);
}

/* -- serving ----------------------------------------------------------------------------------------------------- */

static void ring(void)
{
    struct signalfd_siginfo heard;
    (void)!read(state.bell, &heard, sizeof heard); /* what has ended is looked up, not counted */
    reap_processes();
}

/* Children that end ring a bell. A signal that is blocked waits for it even where it would otherwise be ignored. */
static int hang_bell(void)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    if (signal(SIGCHLD, SIG_DFL) == SIG_ERR || sigprocmask(SIG_BLOCK, &ends, NULL) < 0)
        return -1;
    return signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int settle(int control, const struct trees *trees)
{
    state.trees = trees;
    state.inner = state.listener = state.users = -1;
    state.key = 0;
    state.branched = false;
    state.refused = 0;
    if ((control != HOST_LINE && dup2(control, HOST_LINE) < 0) || syscall(CALL_CLOSE_RANGE, HOST_LINE + 1, ~0U, 0) < 0)
        return -1;
    state.bell = hang_bell();
    return state.bell < 0 ? -1 : look_at_processes();
}

_Noreturn void serve_seat(int control, const struct trees *trees)
{
    if (settle(control, trees) < 0)
        _exit(1);
    for (;;) {
        int pause = pause_before_answers();
        struct pollfd watched[] = {
            {.fd = HOST_LINE, .events = POLLIN},
            {.fd = state.bell, .events = POLLIN},
            {.fd = state.inner, .events = POLLIN},
            {.fd = pause > 0 ? -1 : state.listener, .events = POLLIN},
        };
        if (poll(watched, 4, pause > 0 ? pause : -1) < 0) {
            if (errno == EINTR)
                continue;
            _exit(1);
        }
        if (watched[1].revents)
            ring();
        if (watched[3].revents)
            decide(watched[3].revents);
        if (watched[2].revents)
            take_listener();
        else if (watched[0].revents) /* after a listener: what it asks for may need one */
            hear();
    }
}
