# T61: A segment of the older shared memory, which outlives its maker.
# aim: written
# sealed: namespaces, seccomp
# confined: seccomp
# process: nothing
import ctypes

print(ctypes.CDLL(None, use_errno=True).shmget(canary["segment"], 4096, 0o1666), ctypes.get_errno())
