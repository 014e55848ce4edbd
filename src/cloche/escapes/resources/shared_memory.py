# R11: Segments of the older shared memory, and files in /dev/shm, as many as fit.
# aim: exhausted
# sealed: seccomp, view
# confined: seccomp, landlock
# process: nothing
import ctypes
import os

libc = ctypes.CDLL(None)
took, segments = 0, []
while took < 4200 and (segment := libc.shmget(0, 4096, 0o1600)) >= 0:
    segments.append(segment)
    took += 1
files = []
try:
    while len(files) < 32:
        files.append(os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR))
        os.posix_fallocate(files[-1], 0, 1 << 20)
        took += 1
except OSError:
    pass
for segment in segments:
    libc.shmctl(segment, 0, None)
print("took", took)
