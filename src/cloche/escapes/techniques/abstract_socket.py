# T67: A service of the host behind an abstract Unix socket, which no file system hides.
# aim: connected
# sealed: network, landlock
# confined: network, landlock
# process: nothing
import socket

socket.socket(socket.AF_UNIX).connect("\0" + canary["abstract"])
