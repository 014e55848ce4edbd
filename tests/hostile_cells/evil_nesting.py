# Data nested far deeper than any encoder goes.
x = []
for _ in range(1_000_000):
    x = [x]
