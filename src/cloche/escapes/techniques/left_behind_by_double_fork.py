# T58: A grandchild in a session of its own that means to outlive the sandbox.
# aim: survived
# sealed: namespaces
# confined: lifeline, seccomp
# process: nothing
import os


def stay():
    os.setsid()
    if os.fork() == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.closerange(3, 256)
        os.execv("/bin/sh", ["sh", "-c", "trap '' TERM INT HUP; sleep 45; :", "stray-" + canary["token"]])
    os._exit(0)
pid = os.fork()
if pid == 0:
    stay()
os.waitpid(pid, 0)
