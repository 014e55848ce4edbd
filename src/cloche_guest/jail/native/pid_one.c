#define _GNU_SOURCE
#include "pid_one.h"

#include "packet.h"
#include "step.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALL_CLOSE_RANGE 436

enum { LINE = 3 };

_Noreturn void serve_seat(int control, const struct trees *trees)
{
    static struct packet message;
    (void)trees;
    if ((control != LINE && dup2(control, LINE) < 0) || syscall(CALL_CLOSE_RANGE, LINE + 1, ~0U, 0) < 0)
        _exit(1);
    signal(SIGCHLD, SIG_IGN); /* strays are taken off the list of processes by the kernel */
    for (;;) {
        if (packet_receive(LINE, &message) <= 0)
            _exit(0); /* the host is gone, and everything in the namespace ends with us */
        packet_close(&message);
        if (packet_number_or(&message, "kill", 0)) {
            struct reply reply = {.length = 0};
            kill(-1, SIGKILL); /* all of the namespace but ourselves, at one stroke; there may be nobody */
            reply_add(&reply, "cleared#1");
            if (reply_send(LINE, &reply, NULL, 0) < 0)
                _exit(0);
        }
    }
}
