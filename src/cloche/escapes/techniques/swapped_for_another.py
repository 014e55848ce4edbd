# T65: A name that is the guest's own file and then the host's, while rights are being set by it.
# aim: written
# sealed: view
# confined: seccomp
# process: nothing
import os
import threading
import time

open("own", "w").close()
os.symlink(canary["file"], "theirs")
end = time.monotonic() + 0.5


def swap():
    while time.monotonic() < end:
        for target in ("own", canary["file"]):
            os.symlink(target, "next")
            os.replace("next", "name")
swapper = threading.Thread(target=swap)
os.symlink("own", "name")
swapper.start()
while time.monotonic() < end:
    for name in ("name", "theirs", "/proc/self/cwd/name"):
        try:
            os.chmod(name, 0o777)
        except OSError:
            pass
swapper.join()
