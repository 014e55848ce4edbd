# Looking at the variable forks.
import os


class Split:
    def __repr__(self):
        os.fork()
        return "split"

    def __reduce__(self):
        os.fork()
        return (int, ())


x = Split()
