# A trace function that catches and goes on.
import sys


def trace(frame, event, argument):
    try:
        sum(range(1000))
    except BaseException:
        pass
    return trace


sys.settrace(trace)
while True:
    try:
        while True:
            pass
    except BaseException:
        sys.settrace(trace)
