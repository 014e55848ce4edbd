# Becomes another program.
import os

os.execv("/bin/sleep", ["sleep", "1000"])
