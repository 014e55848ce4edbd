# Handlers of the cell's own take the interrupts, and put themselves back.
import signal


def handler(number, frame):
    for each in (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
        signal.signal(each, handler)


handler(0, None)
while True:
    pass
