/* Loaded into the zygote and, by fork, into every worker. It knows CPython by a few functions that have been the same
 * since 3.7, declared here and not taken from Python.h: one build serves every interpreter. */
#define _GNU_SOURCE
#include "confine.h"
#include "heap.h"
#include "mounts.h"
#include "places.h"
#include "step.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

extern void PyOS_BeforeFork(void);
extern void PyOS_AfterFork_Parent(void);
extern void PyOS_AfterFork_Child(void);

EXPORT const char *cloche_failed_step(void);
EXPORT int cloche_enter(int seat, int namespaces, const int lines[LINES], const struct confinement *how);
EXPORT int cloche_fork_away(const int (*namespaces)[2], int count, long key);
EXPORT int cloche_stand_apart(void);
EXPORT int cloche_gather_heap(size_t arena);
EXPORT int cloche_settle_heap(void);

const char *cloche_failed_step(void)
{
    return failed_step();
}

int cloche_gather_heap(size_t arena)
{
    return gather_heap(arena);
}

int cloche_settle_heap(void)
{
    return settle_heap();
}

/* Whether this process is in a Landlock domain: where it is not, one more would be of no use. */
static int has_domain;

int cloche_stand_apart(void)
{
    return has_domain ? stand_apart() : 0;
}

/* Go into a seat and give up everything that is not needed there. */
int cloche_enter(int seat, int namespaces, const int lines[LINES], const struct confinement *how)
{
    if (setsid() < 0)
        return failed("setsid");
    if (setns(seat, namespaces) < 0 || (how->below && setns(seat, CLONE_NEWUSER) < 0))
        return failed("setns");
    if (how->below && become_user(INSIDE) < 0)
        return -1;
    if (arrange_descriptors(lines) < 0)
        return -1;
    if (chdir(WORKSPACE) < 0)
        return failed_at("chdir", WORKSPACE);
    has_domain = how->landlock;
    return confine(how);
}

/* What the process in the middle leaves in the memory that it shares with its parent. */
struct birth {
    pid_t pid;
    int reason;
    const char *step;
};

/* In the process in the middle; it returns only in the new process. Not inlined: to the compiler, what is written just
 * before a process ends can be seen by nobody. */
static __attribute__((noinline)) void give_birth(const int (*namespaces)[2], int count, long key,
                                                 volatile struct birth *birth)
{
    for (int i = 0; i < count; i++) {
        if (syscall(SYS_setns, namespaces[i][0], namespaces[i][1], key) < 0) {
            birth->reason = errno;
            birth->step = "setns";
            _exit(1);
        }
        if (namespaces[i][1] == CLONE_NEWNS && hide_mounts(key) < 0) {
            birth->reason = errno;
            birth->step = failed_step();
            _exit(1);
        }
    }
    if (count > 0 && clear_capabilities(key) < 0) { /* those over the namespaces: the new process never has them */
        birth->reason = errno;
        birth->step = "capset";
        _exit(1);
    }
    pid_t pid = fork();
    if (pid == 0) {
        setsid(); /* the host looks whether it does */
        return;
    }
    birth->reason = errno;
    birth->step = "fork";
    /* The session that this is a copy of will have to leave its domain, which cannot be undone and may fail: tried here,
     * where it is of no consequence. */
    if (pid > 0 && count > 0 && cloche_stand_apart() < 0) {
        birth->reason = errno;
        birth->step = "landlock";
        kill(pid, SIGKILL);
        _exit(1);
    }
    birth->pid = pid;
    _exit(0);
}

/* Fork into other namespaces: 0 in the new process, its number in the caller. `key` goes along with each call that PID 1
 * has to approve, in a register that the call itself does not use.
 *
 * A process with threads or shared memory may not enter a user namespace, and a process never leaves its own pid
 * namespace; so a process in between does, which shares our memory (no second copy of a large interpreter) and whose
 * own child is then the copy that is wanted. It ends at once: the new process belongs to the PID 1 above. */
int cloche_fork_away(const int (*namespaces)[2], int count, long key)
{
    volatile struct birth birth = {.pid = -1, .reason = 0, .step = ""};
    sigset_t all, before;
    PyOS_BeforeFork();
    /* a handler in the middle process would run on our memory while we sleep */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t middle = vfork();
    if (middle == 0) {
        give_birth(namespaces, count, key, &birth);
        sigprocmask(SIG_SETMASK, &before, NULL);
        PyOS_AfterFork_Child();
        return 0;
    }
    int reason = errno;
    if (middle > 0) /* ECHILD: somebody ignores SIGCHLD; it has ended all the same */
        while (waitpid(middle, NULL, 0) < 0 && errno == EINTR)
            ;
    sigprocmask(SIG_SETMASK, &before, NULL);
    PyOS_AfterFork_Parent();
    if (birth.pid > 0)
        return birth.pid;
    errno = middle < 0 ? reason : birth.reason;
    return failed(middle < 0 ? "vfork" : birth.step);
}
