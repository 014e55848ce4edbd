# An endless loop.
x = 1
while True:
    pass
