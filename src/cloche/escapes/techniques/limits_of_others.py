# T70: Lower the limits of another process.
# aim: touched
# sealed: namespaces
# confined: seccomp
# process: nothing
import resource

soft, hard = resource.prlimit(canary["pid"], resource.RLIMIT_NOFILE)
resource.prlimit(canary["pid"], resource.RLIMIT_NOFILE, (soft - 1, hard))
