# R21: Open files, in as many processes as there can be.
# aim: exhausted
# sealed: rlimits
# confined: rlimits
# process: nothing
import os
import time

took, held = 0, []


def fill():
    global took
    try:
        while took < 2000:
            held.append(os.open("/dev/null", os.O_RDONLY))
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
