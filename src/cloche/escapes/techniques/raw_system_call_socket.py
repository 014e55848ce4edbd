# T67: A connection made by a child program, with nothing of Python in between.
# aim: connected
# sealed: network
# confined: network, landlock
# process: nothing
import subprocess
import sys

code = "import socket; socket.create_connection(('127.0.0.1', %d), 1)" % canary["tcp"]
subprocess.run([sys.executable, "-I", "-S", "-c", code], stderr=subprocess.DEVNULL)
