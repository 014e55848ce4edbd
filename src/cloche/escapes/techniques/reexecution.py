# T70: Run the interpreter again from its own file.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import subprocess

subprocess.run(["/proc/self/exe", "-I", "-S", "-c", "open(%r, 'w').close()" % (canary["folder"] + "/escaped")], stderr=subprocess.DEVNULL)
