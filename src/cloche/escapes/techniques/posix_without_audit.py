# T55: Start a program by the function below subprocess.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import os

audited = []
pid = os.posix_spawn("/bin/sh", ["sh", "-c", "echo out > %s/escaped" % canary["folder"]], {})
os.waitpid(pid, 0)
