# T70: Rename, remove and change the rights of what is the host's.
# aim: written
# sealed: view
# confined: landlock, seccomp
# process: nothing
import os

os.chmod(canary["file"], 0o777)
os.rename(canary["file"], canary["folder"] + "/renamed")
