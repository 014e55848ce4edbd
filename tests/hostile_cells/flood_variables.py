# A hundred thousand variables.
globals().update(("variable_%d" % number, number) for number in range(100_000))
x = 1
