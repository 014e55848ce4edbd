# T10: The order of method resolution leads to object without an underscore.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
for kind in type.__subclasses__(int.mro()[-1]):
    found = getattr(kind.__init__, "__globals__", {}).get("__builtins__")
    if found is not None:
        opener = found["open"] if isinstance(found, dict) else found.open
        opener(canary["folder"] + "/escaped", "w").close()
        break
