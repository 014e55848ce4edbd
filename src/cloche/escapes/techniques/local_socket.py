# T67: A service of the host behind a Unix socket.
# aim: connected
# stopped by: view
import socket

socket.socket(socket.AF_UNIX).connect(canary["unix"])
