# R04: Timers: each keeps a place in the queue of signals.
# aim: exhausted
# sealed: rlimits
# confined: seccomp
# process: nothing
import ctypes

libc = ctypes.CDLL(None)
place = ctypes.c_void_p()
took = 0
while took < 200_000 and not libc.timer_create(1, None, ctypes.byref(place)):
    took += 1
print("took", took)
