# Links out of the workspace, to each other, and to themselves.
import os

os.symlink("/etc/passwd", "probe.txt")
os.symlink("read.txt", "read.txt")
os.symlink("/", "root")
os.symlink(".", "here")
os.mkdir("folder")
os.symlink("..", "folder/up")
