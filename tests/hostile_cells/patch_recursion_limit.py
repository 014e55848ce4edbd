# No room for the kernel's own calls.
import sys

sys.setrecursionlimit(20)
