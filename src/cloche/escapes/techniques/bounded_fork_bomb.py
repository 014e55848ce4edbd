# T61: As many processes as there can be, each in a session of its own; forty at most.
# aim: survived
# sealed: namespaces, rlimits
# confined: lifeline, seccomp, rlimits
# process: nothing
import os

for _ in range(40):
    try:
        if os.fork() == 0:
            os.setsid()
            os.execv("/bin/sh", ["sh", "-c", "exec </dev/null >/dev/null 2>&1; sleep 45; :", "stray-" + canary["token"]])
    except OSError:
        break
