# A small fork bomb: some sixty processes that stay.
import os
import time

for _ in range(6):
    try:
        os.fork()
    except OSError:
        break
time.sleep(1000)
