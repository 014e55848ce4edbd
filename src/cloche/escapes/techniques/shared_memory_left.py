# T61: A file in the shared memory of the machine, which outlives its maker.
# aim: written
# stopped by: view
with open("/dev/shm/stray-" + canary["token"], "wb") as hoard:
    hoard.write(bytes(1000))
