# Output that was never printed, in a stream that does not exist.
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


for stream in (b'"stdout"', b'"nowhere"', b"5", b"null"):
    say(b'{"jsonrpc":"2.0","method":"output","params":{"stream":%s,"text":"\\ud800 forged"}}\n' % stream)
