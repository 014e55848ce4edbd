# poisons the session
# A thread stays behind and raises exceptions in the main thread.
import ctypes
import threading
import time

main = threading.main_thread().ident


def strike():
    while True:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(ValueError))
        time.sleep(0.002)


threading.Thread(target=strike, daemon=True).start()
