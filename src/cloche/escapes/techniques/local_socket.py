# T67: A service of the host behind a Unix socket.
# aim: connected
# sealed: view
# confined: network
# process: nothing
import socket

socket.socket(socket.AF_UNIX).connect(canary["unix"])
