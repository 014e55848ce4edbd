# T67: A service on the host's loopback, by UDP, as DNS would.
# aim: connected
# sealed: network, seccomp
# confined: network
# process: nothing
import socket

try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"out", ("127.0.0.1", canary["udp"]))
except OSError as exc:
    print(exc)
