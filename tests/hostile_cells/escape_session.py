# A child leaves for a session of its own, where the group's signals do not reach it.
import os
import time

if os.fork() == 0:
    os.setsid()
    time.sleep(30)
    os._exit(0)
