# R18: Random numbers, more than anybody needs.
# aim: exhausted
# sealed: process
# confined: process
# process: nothing
import os

took = 0
with open("/dev/urandom", "rb") as source:
    for _ in range(64):
        took += len(source.read(1 << 16)) + len(os.getrandom(1 << 16))
print("took", took)
