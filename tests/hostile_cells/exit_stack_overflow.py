# Recursion in C until the stack is used up.
import sys

sys.setrecursionlimit(10**8)
x = []
for _ in range(200_000):
    x = [x]
repr(x)
