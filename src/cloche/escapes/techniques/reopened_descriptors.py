# T63: Descriptors that were left open, opened again with more rights.
# aim: written
# sealed: process
# confined: process
# process: process
import os, stat
for number in range(3, 1024):
    try:
        if stat.S_ISREG(os.fstat(number).st_mode):
            os.close(os.open("/proc/self/fd/%d" % number, os.O_WRONLY | os.O_TRUNC))
    except OSError:
        pass
