# T61: Take every file watch that a user may have.
# aim: starved
# sealed: seccomp
# confined: seccomp
# process: nothing
import ctypes

libc = ctypes.CDLL(None)
while libc.inotify_init1(0) >= 0:
    pass
