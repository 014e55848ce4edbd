# What stands before each cell that forges: it speaks on the wires of its own process.
import os
import stat


def wires():
    """Every way out that this process has."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                yield int(name)
        except OSError:
            pass
    if os.path.exists("/dev/wire"):  # where it is a device
        yield os.open("/dev/wire", os.O_RDWR)


def say(data):
    for wire in wires():
        view = memoryview(data)
        while view:
            view = view[os.write(wire, view) :]


