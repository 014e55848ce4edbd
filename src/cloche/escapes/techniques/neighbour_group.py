# T71: Signal and slow down the group of processes that a session beside may share.
# aim: neighbour
# sealed: process
# confined: process
# process: process
import os
import signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)
for attempt in (lambda: os.kill(0, signal.SIGTERM), lambda: os.setpriority(os.PRIO_PGRP, 0, 19)):
    try:
        attempt()
    except OSError as exc:
        print(exc)
