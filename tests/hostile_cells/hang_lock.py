# A dead lock, again and again.
import threading

lock = threading.Lock()
lock.acquire()
while True:
    try:
        lock.acquire()
    except BaseException:
        pass
