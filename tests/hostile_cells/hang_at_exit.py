# Leaves, with a clean-up that does not end.
import atexit
import sys


def never():
    while True:
        pass


atexit.register(never)
sys.exit(0)
