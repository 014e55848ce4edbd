# A value of a hundred megabytes, asked for and shown.
x = ["x" * 1000] * 100_000
x
