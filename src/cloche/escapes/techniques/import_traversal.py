# T36: Import nodes reach attributes through packages.
# aim: written
# stopped by: view
from os.path import os as hidden

hidden.mkdir(canary["folder"] + "/escaped")
