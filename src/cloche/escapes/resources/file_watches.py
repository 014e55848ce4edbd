# R08: Every instance of inotify that a user may have.
# aim: exhausted
# sealed: seccomp
# confined: seccomp
# process: nothing
import ctypes

libc = ctypes.CDLL(None)
took = 0
while took < 5000 and libc.inotify_init1(0) >= 0:
    took += 1
print("took", took)
