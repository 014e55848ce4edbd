# Every descriptor is taken, and kept.
x = []
try:
    while True:
        x.append(open("/dev/null"))
except OSError:
    pass
