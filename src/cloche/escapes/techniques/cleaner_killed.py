# T58: End whoever would clean up, and leave a child behind.
# aim: survived
# sealed: namespaces
# confined: landlock, lifeline
# process: nothing
import os
import signal
import subprocess

subprocess.Popen(["/bin/sh", "-c", "sleep 45; :", "stray-" + canary["token"]], start_new_session=True,
                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
parent = os.getppid()
if parent not in (0, 1, canary["host_pid"]):
    for number in (signal.SIGSTOP, signal.SIGKILL):
        try:
            os.kill(parent, number)
        except OSError as exc:
            print(exc)
