# The workspace is gone.
import os
import shutil

shutil.rmtree(os.getcwd())
