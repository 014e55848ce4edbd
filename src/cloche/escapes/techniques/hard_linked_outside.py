# T65: A second name outside for a file of the host.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import os

os.link(canary["file"], canary["folder"] + "/second")
