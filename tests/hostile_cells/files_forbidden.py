# Folders that nobody may enter.
import os

os.makedirs("a/b/c")
open("a/b/c/probe.txt", "w").close()
for name in ("a/b/c", "a/b", "a", "."):
    os.chmod(name, 0)
