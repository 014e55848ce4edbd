# A frame that grows and never ends.
while True:
    say(b"x" * (1 << 20))
