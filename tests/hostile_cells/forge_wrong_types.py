# Replies in which every field has the wrong type.
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


for number in range(100):
    say(b'{"jsonrpc":"2.0","id":%d,"result":{"outcome":[],"value":{},"exception":7,"interrupts":"x"}}\n' % number)
    say(b'{"jsonrpc":"2.0","id":%d,"error":"none"}\n' % number)
    say(b'{"jsonrpc":"2.0","id":%d,"result":[]}\n' % number)
