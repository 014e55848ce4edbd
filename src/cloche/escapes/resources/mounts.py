# R16: Mounts without end, in a namespace of its own.
# aim: exhausted
# sealed: seccomp
# confined: seccomp
# process: nothing
import ctypes
import os

libc = ctypes.CDLL(None)
took = 0
libc.unshare(0x10020000)
os.makedirs("here", exist_ok=True)
while took < 2000 and libc.mount(b"x", b"here", b"tmpfs", 0, None) == 0:
    took += 1
print("took", took)
