# T58: Something started when the interpreter ends.
# aim: survived
# sealed: namespaces
# confined: lifeline
# process: nothing
import atexit
import subprocess


def start():
    subprocess.Popen(["/bin/sh", "-c", "trap '' TERM INT HUP; sleep 45; :", "stray-" + canary["token"]],
                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
atexit.register(start)
start()
