# A thread forks while others are calling the host.
import os
import threading
import time


def ask():
    for _ in range(50):
        try:
            llm_query("x")
        except Exception:
            pass


def fork():
    for _ in range(5):
        if os.fork() == 0:
            time.sleep(1000)


threads = [threading.Thread(target=target) for target in (ask, ask, fork)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
