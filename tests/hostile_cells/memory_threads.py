# As many threads as there may be.
import threading
import time

x = []
try:
    while len(x) < 3000:
        thread = threading.Thread(target=time.sleep, args=(1000,), daemon=True)
        thread.start()
        x.append(thread)
except (RuntimeError, MemoryError):
    pass
