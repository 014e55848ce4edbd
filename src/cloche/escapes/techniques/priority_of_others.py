# T70: Make another process wait behind all others, on one processor.
# aim: touched
# sealed: namespaces
# confined: seccomp
# process: nothing
import os

for attempt in (
    lambda: os.setpriority(os.PRIO_PROCESS, canary["pid"], 19),
    lambda: os.sched_setaffinity(canary["pid"], [min(os.sched_getaffinity(canary["pid"]))]),
):
    try:
        attempt()
    except OSError as exc:
        print(exc)
