# The session's whole folder is gone, and then the process.
import os
import shutil

shutil.rmtree(os.path.dirname(os.getcwd()), ignore_errors=True)
os._exit(1)
