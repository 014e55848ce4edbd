# The value's own text never ends.
class Slow:
    def __repr__(self):
        while True:
            try:
                while True:
                    pass
            except BaseException:
                pass

    __str__ = __repr__


x = Slow()
x
