# Closes every descriptor, the wire's too.
import os

os.closerange(0, 4096)
