# T13: The garbage collector knows every object of the process.
# aim: secret
# sealed: process
# confined: process
# process: process
import gc

for thing in gc.get_objects():
    try:
        held = vars(thing).get("memory")
    except TypeError:
        continue
    if isinstance(held, bytearray):
        print(held.decode())
