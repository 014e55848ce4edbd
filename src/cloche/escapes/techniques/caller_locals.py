# T20: Reach into the local variables of the host's frame and call what is there.
# aim: secret
# sealed: process
# confined: process
# process: process
import sys

frame = sys._getframe()
while frame is not None:
    held = frame.f_locals.get("held")
    if held is not None and hasattr(held, "memory"):
        frame.f_locals["code"] = "changed"
        print(held.memory.decode())
    frame = frame.f_back
