# T70: Run the interpreter again from its own file.
# aim: written
# stopped by: view
import subprocess

subprocess.run(["/proc/self/exe", "-I", "-S", "-c", "open(%r, 'w').close()" % (canary["folder"] + "/escaped")], stderr=subprocess.DEVNULL)
