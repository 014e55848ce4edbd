#define _GNU_SOURCE
#include "networks.h"

#include "step.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

/* Of those that are lent so many are remembered to be used again; the others end with their seats. */
enum { READY = 2, MAX_READY = 16, MAX_LENT = 64 };

static int ready[MAX_READY];
static size_t ready_count;

static struct {
    int network;
    int pid_one;
} lent[MAX_LENT];
static size_t lent_count;

static void keep(int network)
{
    if (ready_count < MAX_READY)
        ready[ready_count++] = network;
    else
        close(network);
}

/* A PID 1 ends after all others of its namespace, and with them their sockets. */
static void take_back(void)
{
    struct pollfd ends[MAX_LENT];
    size_t left = 0;
    for (size_t i = 0; i < lent_count; i++)
        ends[i] = (struct pollfd){.fd = lent[i].pid_one, .events = POLLIN};
    if (lent_count == 0 || poll(ends, lent_count, 0) <= 0)
        return;
    for (size_t i = 0; i < lent_count; i++) {
        if (ends[i].revents) {
            close(lent[i].pid_one);
            keep(lent[i].network);
        } else
            lent[left++] = lent[i];
    }
    lent_count = left;
}

/* We come back to our own. */
static int make_network(void)
{
    int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (own < 0)
        return failed("/proc/self/ns/net");
    int made = unshare(CLONE_NEWNET) < 0 ? failed("unshare") : open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int reason = errno;
    if (setns(own, CLONE_NEWNET) < 0)
        _exit(1);
    close(own);
    errno = reason;
    return made;
}

int take_network(void)
{
    if (ready_count == 0)
        take_back();
    return ready_count > 0 ? ready[--ready_count] : make_network();
}

void lend_network(int network, int pid_one)
{
    if (lent_count == MAX_LENT)
        take_back();
    if (lent_count == MAX_LENT) { /* the oldest is forgotten: it may be in use for long */
        close(lent[0].network);
        close(lent[0].pid_one);
        memmove(lent, lent + 1, --lent_count * sizeof *lent);
    }
    lent[lent_count].network = network;
    lent[lent_count++].pid_one = pid_one;
}

bool networks_are_ready(void)
{
    return ready_count >= READY;
}

void prepare_network(void)
{
    take_back();
    if (ready_count >= READY)
        return;
    int made = make_network();
    if (made >= 0)
        keep(made);
}
