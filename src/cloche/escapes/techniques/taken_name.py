# T67: An abstract name that a service of the host is about to take.
# aim: starved
# sealed: network
# confined: network
# process: nothing
import socket

for make in (lambda: socket.socket(socket.AF_UNIX), lambda: socket.socketpair()[0]):
    try:
        kept = make()
        kept.bind("\0" + canary["token"] + "-free")
        break
    except OSError as exc:
        print(exc)
