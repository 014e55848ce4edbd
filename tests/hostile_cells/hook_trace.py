# poisons the session
# A trace and a profile function stay behind and raise in whatever runs next.
import sys
import threading


def fail(*args):
    raise ValueError("traced")


threading.settrace(fail)
sys.setprofile(fail)
sys.settrace(fail)
