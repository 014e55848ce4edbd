# R01: As many processes as there can be, each waiting.
# aim: exhausted
# sealed: rlimits
# confined: seccomp, rlimits
# process: nothing
import os
import time

took = 0
try:
    while took < 2000:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        took += 1
except OSError:
    pass
print("took", took)
