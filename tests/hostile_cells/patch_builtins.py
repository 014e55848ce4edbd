# poisons the session
# Every builtin function is replaced by one that fails.
import builtins


def fail(*args, **kwargs):
    raise SystemError("replaced")


for name in dir(builtins):
    if name.islower() and not name.startswith("_"):
        setattr(builtins, name, fail)
