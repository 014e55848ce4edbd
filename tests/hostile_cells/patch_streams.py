# Streams that fail in every way.
import sys


class Trap:
    def __getattr__(self, name):
        raise SystemExit(name)

    def __eq__(self, other):
        while True:
            pass

    __hash__ = None


sys.stdout = sys.stderr = sys.stdin = sys.__stdout__ = sys.__stderr__ = Trap()
