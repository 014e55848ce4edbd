# R06: Pages of pipes, in many processes: beyond some the pipes of a user shrink.
# aim: exhausted
# sealed: rlimits
# confined: rlimits
# process: nothing
import fcntl
import os
import time

took, held = 0, []


def fill():
    global took
    try:
        while took < 1000:
            held.append(os.pipe())
            took += 1
            fcntl.fcntl(held[-1][0], 1031, 1 << 20)
    except OSError:
        pass
    try:
        while took < 1000:
            held.append(os.pipe())
            took += 1
    except OSError:
        pass


for _ in range(30):
    try:
        if os.fork() == 0:
            fill()
            time.sleep(20)
            os._exit(0)
    except OSError:
        break
fill()
print("took", took)
