# T70: Give the machine another name.
# aim: state
# sealed: namespaces, seccomp
# confined: seccomp, capabilities
# process: nothing
import ctypes

name = canary["token"].encode()
print(ctypes.CDLL(None, use_errno=True).sethostname(name, len(name)), ctypes.get_errno())
