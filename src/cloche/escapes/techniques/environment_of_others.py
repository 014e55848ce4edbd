# T70: The environment of other processes.
# aim: secret
# sealed: namespaces
# confined: landlock
# process: nothing
import os

for pid in (canary["pid"], canary["host_pid"], os.getppid(), "self", 1):
    try:
        print(open("/proc/%s/environ" % pid).read())
    except OSError as exc:
        print(exc)
