# R13: Locks on single bytes of a file: a row of them that the kernel keeps, and that is listed for all.
# aim: exhausted
# sealed: rlimits
# confined: rlimits
# process: nothing
import fcntl
import os

took = 0
file = os.open("locked", os.O_RDWR | os.O_CREAT, 0o600)
try:
    while took < 3000:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2 * took)
        took += 1
except OSError:
    pass
print("took", took)
