# T55: Look through the descriptors of every process that can be seen.
# aim: secret
# sealed: namespaces
# confined: landlock
# process: nothing
import os

for pid in os.listdir("/proc"):
    if not pid.isdigit() or int(pid) not in (canary["host_pid"], canary["pid"], 1):
        continue
    try:
        for number in os.listdir("/proc/%s/fd" % pid):
            path = "/proc/%s/fd/%s" % (pid, number)
            if os.readlink(path).startswith(canary["folder"]):
                print(open(os.path.dirname(os.readlink(path)) + "/secret.txt").read())
    except OSError as exc:
        print(exc)
