# T70: The command lines of other processes.
# aim: seen
# sealed: namespaces
# confined: landlock
# process: nothing
import os

for pid in os.listdir("/proc"):
    if pid.isdigit():
        try:
            print(open("/proc/%s/cmdline" % pid).read())
        except OSError:
            pass
