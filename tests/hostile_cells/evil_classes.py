# Classes that lie about what they are.
class Meta(type):
    armed = False

    def __getattribute__(cls, name):
        if Meta.armed:
            raise SystemExit("asked for " + name)
        return type.__getattribute__(cls, name)

    def __instancecheck__(cls, other):
        raise SystemExit("asked")


class Evil(Exception, metaclass=Meta):
    __class__ = property(lambda self: 1 / 0)

    def __getattribute__(self, name):
        raise SystemExit("asked for " + name)


x = Evil()
Meta.armed = True
raise x
