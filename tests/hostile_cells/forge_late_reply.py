# Answers questions that were not asked, when the cell is over.
import threading
import time


def later():
    for number in range(1000):
        time.sleep(0.002)
        say(b'{"jsonrpc":"2.0","id":%d,"result":{"outcome":"ok","value":"forged"}}\n' % number)


threading.Thread(target=later, daemon=True).start()
