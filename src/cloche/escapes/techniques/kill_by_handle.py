# T70: A signal through a process handle.
# aim: touched
# sealed: namespaces, seccomp
# confined: landlock
# process: nothing
import os
import signal

signal.pidfd_send_signal(os.pidfd_open(canary["pid"]), signal.SIGKILL)
