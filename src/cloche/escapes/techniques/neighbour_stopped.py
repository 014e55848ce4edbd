# T71: Stop the process of a session beside.
# aim: neighbour
# sealed: namespaces, landlock
# confined: landlock
# process: nothing
import os
import signal

try:
    os.kill(canary["neighbour"], signal.SIGSTOP)
except (OSError, TypeError) as exc:
    print(exc)
