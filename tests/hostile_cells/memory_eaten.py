# As much memory as there is.
x = []
while True:
    x.append(bytearray(50_000_000))
