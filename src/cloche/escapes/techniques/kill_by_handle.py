# T70: A signal through a process handle.
# aim: touched
# stopped by: namespaces, seccomp
import os
import signal

signal.pidfd_send_signal(os.pidfd_open(canary["pid"]), signal.SIGKILL)
