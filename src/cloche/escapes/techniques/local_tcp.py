# T67: A service on the host's loopback, by TCP.
# aim: connected
# sealed: network, seccomp, landlock
# confined: network, landlock
# process: nothing
import socket

for place in ("127.0.0.1", "::1", "localhost", "0.0.0.0"):
    try:
        socket.create_connection((place, canary["tcp"]), 1).sendall(b"out")
    except OSError as exc:
        print(place, exc)
