# T59: A helper that waits for the end of its parent, and then acts.
# aim: survived
# sealed: namespaces
# confined: lifeline
# process: nothing
import os
import subprocess

subprocess.Popen(["/bin/sh", "-c", "trap '' TERM INT HUP; while kill -0 %d 2>/dev/null; do sleep 0.2; done; sleep 45; :" % os.getpid(), "stray-" + canary["token"]],
                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
