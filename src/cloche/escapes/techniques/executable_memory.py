# T54: Machine code in executable memory that makes a system call.
# aim: written
# sealed: view, landlock
# confined: landlock
# process: nothing
import ctypes
import mmap
import platform

if platform.machine() == "x86_64":
    path = ctypes.create_string_buffer((canary["folder"] + "/escaped").encode())
    code = b"\xb8\x55\x00\x00\x00\x0f\x05\xc3"  # creat
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_char_p, ctypes.c_long)(address)(path.value, 0o600)
