# An exit whose status is an object with ideas of its own.
class Status(int):
    def __and__(self, other):
        while True:
            pass

    __le__ = __lt__ = __ge__ = __gt__ = __index__ = __int__ = __and__


raise SystemExit(Status(3))
