# Finds the kernel's objects and empties them.
import gc

for thing in gc.get_objects():
    if type(thing).__module__.startswith("cloche_guest") and hasattr(thing, "__dict__"):
        thing.__dict__.clear()
