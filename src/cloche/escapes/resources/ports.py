# R19: Every port of TCP that programs are given.
# aim: exhausted
# sealed: network, seccomp
# confined: seccomp
# process: nothing
import socket

took, held = 0, []
try:
    while took < 1000:
        held.append(socket.create_server(("127.0.0.1", 0)))
        took += 1
except OSError:
    pass
print("took", took)
