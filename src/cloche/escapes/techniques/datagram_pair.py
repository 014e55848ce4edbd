# T67: A message to a service of the host from a socket that was only made as one of a pair.
# aim: connected
# sealed: view
# confined: network
# process: nothing
import socket

for make in (lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0], lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)):
    try:
        make().sendto(b"out", canary["datagrams"])
    except OSError as exc:
        print(exc)
