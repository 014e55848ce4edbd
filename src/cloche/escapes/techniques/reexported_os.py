# T44: Modules of the standard library that carry os along.
# aim: secret
# sealed: environment
# confined: environment
# process: environment
import logging
import random
import uuid

for module in (logging, uuid, random):
    found = getattr(module, "os", None) or getattr(module, "_os", None)
    if found is not None:
        print(found.environ.get(canary["variable"]))
