# Pipes in the place of files that the host will touch.
import os

for name in ("probe.txt", "read.txt", "other"):
    os.mkfifo(name)
