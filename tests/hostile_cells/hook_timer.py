# poisons the session
# A timer stays behind, and its handler raises wherever it strikes.
import signal


def strike(number, frame):
    raise ValueError("struck")


signal.signal(signal.SIGALRM, strike)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
