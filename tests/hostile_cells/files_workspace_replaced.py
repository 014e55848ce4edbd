# Another folder's link stands where the workspace was.
import os

here = os.getcwd()
os.rename(here, here + "-moved")
os.symlink("/etc", here)
