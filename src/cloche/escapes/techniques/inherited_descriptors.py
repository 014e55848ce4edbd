# T55: Write to every descriptor that was left open.
# aim: written
# sealed: process
# confined: process
# process: process
import os

for number in range(3, 1024):
    try:
        if os.path.samestat(os.fstat(number), os.stat(canary["file"])):
            os.write(number, b"escaped")
    except OSError:
        pass
for number in range(3, 1024):
    try:
        import stat
        if stat.S_ISREG(os.fstat(number).st_mode):
            os.write(number, b"escaped")
    except OSError:
        pass
