# R03: Signals of real time that are blocked: each waits in a queue that is counted by user.
# aim: exhausted
# sealed: rlimits
# confined: seccomp
# process: nothing
import ctypes
import os
import signal

libc = ctypes.CDLL(None)
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
took = 0
while took < 200_000 and not libc.sigqueue(os.getpid(), 40, 0):
    took += 1
print("took", took)
