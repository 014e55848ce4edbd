# R02: Processes that have ended, and that nobody waits for: their numbers stay taken.
# aim: exhausted
# sealed: namespaces, rlimits
# confined: seccomp, rlimits
# process: nothing
import os

took = 0
try:
    while took < 500:
        if os.fork() == 0:
            os._exit(0)
        took += 1
except OSError:
    pass
print("took", took)
