# T70: Mount something over a folder of the host.
# aim: state
# sealed: namespaces, seccomp
# confined: seccomp, capabilities
# process: nothing
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
print(libc.mount(b"none", canary["folder"].encode(), b"tmpfs", 0, None), ctypes.get_errno())
