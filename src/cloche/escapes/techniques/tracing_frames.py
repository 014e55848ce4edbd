# T19: Frames from sys, from a signal handler and from a trace function.
# aim: secret
# sealed: process
# confined: process
# process: process
import signal
import sys


def walk(frame):
    while frame is not None:
        print(str(frame.f_locals.get("memory")))
        frame = frame.f_back
walk(sys._getframe())
try:
    signal.signal(signal.SIGUSR1, lambda number, frame: walk(frame))
    signal.raise_signal(signal.SIGUSR1)
except ValueError:
    pass
sys.setprofile(lambda frame, event, value: None)
sys.setprofile(None)
