# A grandchild without a parent, holding the pipes and writing to them.
import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for _ in range(300):
            os.write(1, b"still here\n")
            time.sleep(0.1)
    os._exit(0)
