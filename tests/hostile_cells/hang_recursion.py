# Recursion whose handlers recurse again.
import sys

sys.setrecursionlimit(100000)


def again():
    try:
        again()
    except BaseException:
        again()
    finally:
        again()


again()
