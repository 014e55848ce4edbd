# R09: Keys in the keyring of the user, until its quota is used up.
# aim: exhausted
# sealed: seccomp
# confined: seccomp
# process: nothing
import ctypes

libc = ctypes.CDLL(None)
took = 0
while took < 2000 and libc.syscall(248, b"user", b"cloche-%d" % took, b"x", 1, -2) >= 0:
    took += 1
print("took", took)
