# R17: Control groups below its own, as many as may be made.
# aim: exhausted
# sealed: view
# confined: landlock
# process: nothing
import os

took = 0
for line in open("/proc/self/cgroup"):
    number, kinds, path = line.strip().split(":", 2)
    for place in ("/sys/fs/cgroup/%s%s" % (kinds or "unified", path), "/sys/fs/cgroup" + path):
        try:
            while took < 500:
                os.mkdir(place + "/taken-%d" % took)
                took += 1
        except OSError:
            pass
print("took", took)
