# T70: The root folder of another process is another view.
# aim: secret
# sealed: namespaces, landlock
# confined: landlock
# process: nothing
import os

for pid in (1, os.getppid(), canary["host_pid"], canary["pid"]):
    for way in ("root", "cwd"):
        try:
            print(open("/proc/%d/%s/%s" % (pid, way, canary["secret"].lstrip("/"))).read())
        except OSError as exc:
            print(exc)
