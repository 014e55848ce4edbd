# R15: Namespaces of users, as many as may be made.
# aim: exhausted
# sealed: seccomp
# confined: seccomp
# process: nothing
import ctypes
import os

libc = ctypes.CDLL(None)
took, held = 0, []
while took < 30 and libc.unshare(0x10000000) == 0:
    held.append(os.open("/proc/self/ns/user", os.O_RDONLY))
    took += 1
print("took", took)
