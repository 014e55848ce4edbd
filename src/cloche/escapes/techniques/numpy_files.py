# T49: numpy reads and writes files by itself.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import numpy

try:
    print(numpy.fromfile(canary["secret"], dtype=numpy.uint8).tobytes())
finally:
    numpy.arange(3).tofile(canary["folder"] + "/escaped")
