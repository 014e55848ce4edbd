# T61: A file in the shared memory of the machine, which outlives its maker.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
with open("/dev/shm/stray-" + canary["token"], "wb") as hoard:
    hoard.write(bytes(1000))
