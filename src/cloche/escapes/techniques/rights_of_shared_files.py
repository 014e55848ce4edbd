# T62: Times and rights of a file in the interpreter's folder, which the guest may read.
# aim: written
# sealed: view
# confined: seccomp
# process: nothing
import os

if canary["shared"]:
    handle = os.open(canary["shared"], os.O_RDONLY)
    for attempt in (
        lambda: os.fchmod(handle, 0o666),
        lambda: os.utime(handle, (1, 2)),
        lambda: os.chmod("/proc/self/fd/%d" % handle, 0o666),
        lambda: os.truncate(canary["shared"], 0),
    ):
        try:
            attempt()
        except OSError as exc:
            print(exc)
