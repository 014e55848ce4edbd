# poisons the session
# Hooks for errors and for display that do not return.
import sys
import threading


def never(*args):
    while True:
        pass


sys.excepthook = sys.displayhook = sys.unraisablehook = sys.breakpointhook = threading.excepthook = never
raise ValueError("who reports this?")
