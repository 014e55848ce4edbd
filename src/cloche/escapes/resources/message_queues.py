# R10: Message queues, until the bytes that a user may have in them are used up.
# aim: exhausted
# sealed: seccomp, rlimits
# confined: seccomp, rlimits
# process: nothing
import ctypes
import os

libc = ctypes.CDLL(None)
took, names = 0, []
while took < 500 and libc.syscall(240, b"cloche-%d-%d" % (os.getpid(), took), 0o102, 0o600, None) >= 0:
    names.append(b"cloche-%d-%d" % (os.getpid(), took))
    took += 1
for name in names:
    libc.syscall(241, name)  # the name goes, the queue stays open
print("took", took)
