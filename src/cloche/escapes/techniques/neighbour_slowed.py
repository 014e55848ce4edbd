# T71: Make a session beside wait behind all others, on one processor.
# aim: neighbour
# sealed: namespaces, seccomp
# confined: seccomp
# process: nothing
import os

for attempt in (
    lambda: os.setpriority(os.PRIO_PROCESS, canary["neighbour"], 19),
    lambda: os.sched_setaffinity(canary["neighbour"], [min(os.sched_getaffinity(0))]),
):
    try:
        attempt()
    except (OSError, TypeError) as exc:
        print(exc)
