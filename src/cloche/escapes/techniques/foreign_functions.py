# T54: The C library, through ctypes.
# aim: written
# sealed: view, landlock
# confined: landlock
# process: nothing
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
libc.creat((canary["folder"] + "/escaped").encode(), 0o600)
