# Devices and sockets in the workspace.
import os
import socket
import stat

for name, number in (("zero", os.makedev(1, 5)), ("probe.txt", os.makedev(1, 8))):
    try:
        os.mknod(name, 0o666 | stat.S_IFCHR, number)
    except OSError:
        pass
x = socket.socket(socket.AF_UNIX)
x.bind("read.txt")
