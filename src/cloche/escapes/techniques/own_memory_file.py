# T54: The process's own memory as a file, to change what no Python code can.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import ctypes, os
number = ctypes.c_char(b"\x07")
with open("/proc/self/mem", "r+b", buffering=0) as memory:
    memory.seek(ctypes.addressof(number))
    memory.write(b"\x08")
if number.value == b"\x08":
    os.mkdir(canary["folder"] + "/escaped")
