# T70: Attach to another process as a debugger, and stop it there.
# aim: touched
# sealed: namespaces, seccomp, landlock
# confined: seccomp, landlock
# process: nothing
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
print(libc.ptrace(16, canary["pid"], 0, 0), os.strerror(ctypes.get_errno()))
