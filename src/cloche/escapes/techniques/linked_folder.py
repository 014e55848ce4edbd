# T65: A link in the workspace to a folder of the host, for the host to write into.
# aim: written
# sealed: host
# confined: host
# process: host
import os

os.symlink(canary["folder"], "drop")
