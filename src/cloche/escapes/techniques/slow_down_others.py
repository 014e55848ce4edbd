# T70: Take resources away from another process.
# aim: touched
# sealed: namespaces
# confined: seccomp, landlock
# process: nothing
import os
import resource
import signal

resource.prlimit(canary["pid"], resource.RLIMIT_CORE, (0, 0))
os.kill(canary["pid"], signal.SIGSTOP)
