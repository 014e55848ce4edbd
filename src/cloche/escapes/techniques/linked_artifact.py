# T65: A link in the workspace to a file of the host, for the host to read.
# aim: secret
# sealed: host
# confined: host
# process: host
import os

os.symlink(canary["secret"], "leak.txt")
os.symlink(canary["folder"], "link")
