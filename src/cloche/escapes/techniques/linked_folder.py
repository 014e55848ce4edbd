# T65: A link in the workspace to a folder of the host, for the host to write into.
# aim: written
# stopped by: host
import os

os.symlink(canary["folder"], "drop")
