# T70: The root folder of another process is another view.
# aim: secret
# stopped by: namespaces, landlock
import os

for pid in (1, os.getppid(), canary["host_pid"], canary["pid"]):
    for way in ("root", "cwd"):
        try:
            print(open("/proc/%d/%s/%s" % (pid, way, canary["secret"].lstrip("/"))).read())
        except OSError as exc:
            print(exc)
