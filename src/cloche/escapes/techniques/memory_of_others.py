# T70: Write into the memory of another process.
# aim: touched
# sealed: namespaces, seccomp
# confined: seccomp, landlock
# process: nothing
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
word = ctypes.create_string_buffer(b"changed")
here, there = Vector(ctypes.addressof(word), 7), Vector(canary["pointer"], 7)
print(libc.process_vm_writev(canary["pid"], ctypes.byref(here), 1, ctypes.byref(there), 1, 0), os.strerror(ctypes.get_errno()))
