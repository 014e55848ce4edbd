# T62: A file in the folder of the interpreter that host and guest share.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import os
import sys

for folder in (sys.prefix, sys.base_prefix):
    try:
        open(os.path.join(folder, "stray-" + canary["token"]), "w").close()
    except OSError as exc:
        print(exc)
