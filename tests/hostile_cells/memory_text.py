# A text that grows until nothing is left.
x = "x"
while True:
    x += x
