# R20: Names of sockets that others want.
# aim: exhausted
# sealed: namespaces
# confined: seccomp
# process: nothing
import socket

took, held = 0, []
for name in (canary["token"] + "-free", canary["token"] + "-needed"):
    try:
        held.append(socket.socket(socket.AF_UNIX))
        held[-1].bind("\0" + name)
        held[-1].listen()
        took += 1
    except OSError:
        pass
print("took", took)
