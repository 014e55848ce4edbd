# Text without a line end, past Python's streams.
import os

block = b"\xff" * (1 << 20)
while True:
    os.write(1, block)
    os.write(2, block)
