# All memory is used, and nothing of it is given back.
x = []
size = 1 << 28
while size > 16:
    try:
        x.append(bytearray(size))
    except MemoryError:
        size //= 2
