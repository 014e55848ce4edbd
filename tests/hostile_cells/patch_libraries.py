# poisons the session
# Modules that the kernel may import later are something else.
import sys


class Trap:
    def __getattr__(self, name):
        raise SystemExit(name)


for name in ("json", "pickle", "io", "traceback", "linecache", "binascii", "cloudpickle", "resource", "datetime", "re"):
    sys.modules[name] = Trap()
x = {1, 2, 3}
