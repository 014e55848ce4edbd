# Waits for a child that does not end.
import subprocess

subprocess.run(["sleep", "1000"])
