# T71: End a session beside.
# aim: neighbour
# sealed: namespaces, landlock
# confined: landlock
# process: nothing
import os
import signal

try:
    os.kill(canary["neighbour"], signal.SIGKILL)
except (OSError, TypeError) as exc:
    print(exc)
