# Closes every descriptor that is not a socket, and puts files in their place.
import os
import stat

for name in os.listdir("/proc/self/fd"):
    try:
        if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
            os.close(int(name))
    except OSError:
        pass
x = [os.open("/dev/null", os.O_RDWR) for _ in range(20)]
