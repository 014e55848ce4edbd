# T57: Environment variables that change the programs started later.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import os
import subprocess
import sys

startup = os.path.join(os.getcwd(), "startup.py")
open(startup, "w").write("open(%r, 'w').close()" % (canary["folder"] + "/escaped"))
subprocess.run(["/bin/sh", "-c", ". ./env.sh 2>/dev/null; true"], env={"ENV": startup, "LD_PRELOAD": "./x.so"}, stderr=subprocess.DEVNULL)
subprocess.run([sys.executable, "-c", "import runpy; runpy.run_path(%r)" % startup], env={"PYTHONSTARTUP": startup})
