# T60: End by a crash of the interpreter, with a child left behind.
# aim: survived
# sealed: namespaces
# confined: lifeline
# process: nothing
import os
import subprocess

subprocess.Popen(["/bin/sh", "-c", "sleep 45; :", "stray-" + canary["token"]],
                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
os.abort()
