# The cell ends; a child of it holds every pipe and stays.
import os
import time

if os.fork() == 0:
    while True:
        time.sleep(1000)
