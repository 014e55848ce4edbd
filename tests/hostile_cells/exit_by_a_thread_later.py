# A thread ends the process soon after the cell.
import os
import threading

threading.Timer(0.05, os._exit, (5,)).start()
