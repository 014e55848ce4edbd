# T70: Signals to processes of the host.
# aim: touched
# sealed: namespaces, landlock
# confined: landlock
# process: nothing
import os
import signal

for number in (signal.SIGUSR1, signal.SIGTERM):
    try:
        os.kill(canary["pid"], number)
    except OSError as exc:
        print(exc)
