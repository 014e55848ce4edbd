# R05: Descriptors on their way: many that send at once, to sockets that nobody reads.
# aim: exhausted
# sealed: namespaces
# confined: seccomp
# process: nothing
import array
import socket
import threading

numbers = array.array("i", [0] * 250)
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)]
took, held = 0, []


def fill():
    global took
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    held.extend((one, other))
    try:
        while True:
            one.sendmsg([b"x"], rights)
            took += 250
    except (OSError, AttributeError):
        pass


for _ in range(40):
    try:
        threading.Thread(target=fill, daemon=True).start()
    except RuntimeError:
        break
for thread in threading.enumerate()[1:]:
    thread.join(0.02)
print("took", took)
