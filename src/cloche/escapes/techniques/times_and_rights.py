# T70: Times and rights of a file of the host, which no write touches.
# aim: written
# sealed: view
# confined: seccomp
# process: nothing
import os

for attempt in (lambda: os.utime(canary["file"], (1, 2)), lambda: os.chmod(canary["file"], 0o777)):
    try:
        attempt()
    except OSError as exc:
        print(exc)
