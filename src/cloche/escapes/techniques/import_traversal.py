# T36: Import nodes reach attributes through packages.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
from os.path import os as hidden

hidden.mkdir(canary["folder"] + "/escaped")
