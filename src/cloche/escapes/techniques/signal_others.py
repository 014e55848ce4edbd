# T70: Signals to processes of the host.
# aim: touched
# stopped by: namespaces, landlock
import os
import signal

for number in (signal.SIGUSR1, signal.SIGTERM):
    try:
        os.kill(canary["pid"], number)
    except OSError as exc:
        print(exc)
