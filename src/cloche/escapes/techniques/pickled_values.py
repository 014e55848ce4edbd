# T52: A value whose pickle runs code where it is read: in the host, if the host unpickles.
# aim: written
# sealed: process
# confined: process
# process: process
import os


class Evil:
    def __reduce__(self):
        return (os.system, ("echo %d > " % os.getpid() + canary["folder"] + "/escaped",))
evil = Evil()
