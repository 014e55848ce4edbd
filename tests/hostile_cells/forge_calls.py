# Calls to the host that are malformed in every way.
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


for params in (b"null", b"[]", b'{"name":5}', b'{"name":"llm_query","args":{}}', b'{"name":"__import__","args":["os"]}'):
    for number in (b"1", b"null", b'"a"', b"[]", b"-1", b"1.5"):
        say(b'{"jsonrpc":"2.0","id":%s,"method":"bridge","params":%s}\n' % (number, params))
