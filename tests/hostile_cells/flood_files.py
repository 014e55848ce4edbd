# Very many files.
import os

number = 0
os.mkdir("many")
while True:
    number += 1
    open("many/%d" % number, "w").close()
