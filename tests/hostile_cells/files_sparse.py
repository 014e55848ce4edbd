# A file that says it has a hundred terabytes.
import os
import resource
import signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for size in (1 << 47, 1 << 28, 1 << 20):
    try:
        os.truncate(os.open("probe.txt", os.O_CREAT | os.O_RDWR), size)
        break
    except OSError:
        pass
