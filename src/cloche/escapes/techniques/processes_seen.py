# T70: The command lines of other processes.
# aim: seen
# stopped by: namespaces
import os

for pid in os.listdir("/proc"):
    if pid.isdigit():
        try:
            print(open("/proc/%s/cmdline" % pid).read())
        except OSError:
            pass
