# Noise on the wire.
say(bytes(range(256)) * 1000)
