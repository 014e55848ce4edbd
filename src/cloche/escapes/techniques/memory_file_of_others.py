# T70: Write into the memory of another process through its file.
# aim: touched
# sealed: namespaces
# confined: landlock
# process: nothing
with open("/proc/%d/mem" % canary["pid"], "r+b", buffering=0) as memory:
    memory.seek(canary["pointer"])
    memory.write(b"changed")
