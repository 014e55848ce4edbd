# Reads the host's requests away from the kernel.
import threading


def steal(wire):
    while os.read(wire, 1000):
        pass


for wire in wires():
    threading.Thread(target=steal, args=(wire,), daemon=True).start()
