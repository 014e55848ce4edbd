# T71: Lower the limits of a session beside.
# aim: neighbour
# sealed: namespaces, seccomp
# confined: seccomp
# process: nothing
import resource

for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
    try:
        resource.prlimit(canary["neighbour"], kind, (0, 0))
    except (OSError, TypeError) as exc:
        print(exc)
