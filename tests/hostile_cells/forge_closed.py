# Hangs up, and goes on living.
import socket
import time

for wire in list(wires()):
    socket.socket(fileno=wire).shutdown(socket.SHUT_RDWR)
time.sleep(1000)
