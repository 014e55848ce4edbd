# poisons the session
# Finalizers, weak references and the collector's callbacks all raise.
import gc
import weakref


class Loud:
    def __del__(self):
        raise SystemExit("deleted")


def fail(*args):
    raise SystemExit("called")


x = Loud()
keep = [weakref.ref(x, fail), Loud(), Loud()]
keep.append(keep)
gc.callbacks.append(fail)
gc.set_threshold(1)
del x, keep
