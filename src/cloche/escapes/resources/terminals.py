# R14: Every terminal that there can be.
# aim: exhausted
# sealed: view
# confined: landlock
# process: nothing
import os

took, held = 0, []
try:
    while took < 5000:
        held.append(os.openpty())
        took += 1
except OSError:
    pass
print("took", took)
