# All memory is used, and nothing of it is given back: what is left may not be enough for the next cell.
# poisons the session
x = []
size = 1 << 28
while size > 16:
    try:
        x.append(bytearray(size))
    except MemoryError:
        size //= 2
