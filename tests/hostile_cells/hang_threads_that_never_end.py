# Threads that never end, one of them waited for.
import threading


def endless():
    while True:
        pass


threads = [threading.Thread(target=endless) for _ in range(4)]
for thread in threads:
    thread.start()
threads[0].join()
