# T65: A pipe in the workspace that nobody writes to, for the host to read.
# aim: stuck
# sealed: host
# confined: host
# process: host
import os

os.mkfifo("pipe")
