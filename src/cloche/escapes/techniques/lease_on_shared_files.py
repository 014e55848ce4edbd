# T61: A lease on a file that the guest may read: whoever wants to write to it waits.
# aim: starved
# sealed: seccomp
# confined: seccomp
# process: nothing
import fcntl

if canary["shared"]:
    kept = open(canary["shared"])
    fcntl.fcntl(kept, 1024, fcntl.F_RDLCK)
