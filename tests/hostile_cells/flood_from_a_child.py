# A child that goes on writing after the cell.
import subprocess

x = subprocess.Popen(["sh", "-c", "while :; do echo flood; echo flood >&2; done"])
