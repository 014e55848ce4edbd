# Folders inside folders, deeper than any path may be long.
import os

for _ in range(3000):
    os.mkdir("d" * 50)
    os.chdir("d" * 50)
    open("probe.txt", "w").close()
