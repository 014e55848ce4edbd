# R12: Memory that must not be swapped out, and huge pages of the machine.
# aim: exhausted
# sealed: rlimits, seccomp
# confined: rlimits, seccomp
# process: nothing
import ctypes

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
took = 0
for flags in (0x22, 0x40022):
    while took < 256:
        place = libc.mmap(None, ctypes.c_size_t(2 << 20), 3, flags, -1, ctypes.c_long(0))
        if place == 2**64 - 1 or libc.mlock(ctypes.c_void_p(place), ctypes.c_size_t(2 << 20)):
            break
        took += 1
print("took", took)
