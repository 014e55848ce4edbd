# The process ends when somebody looks at the variable, or saves it.
import os


class Trap:
    def __repr__(self):
        os._exit(9)

    def __reduce__(self):
        os._exit(9)


x = Trap()
