# T65: A second name in the workspace for a file of the host, for the host to read.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
import os

try:
    os.link(canary["secret"], "leak.txt")
except OSError as exc:
    print(exc)
