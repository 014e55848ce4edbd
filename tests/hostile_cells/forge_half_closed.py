# Hears the host no more, and goes on talking.
import socket

for wire in list(wires()):
    socket.socket(fileno=os.dup(wire)).shutdown(socket.SHUT_RD)
