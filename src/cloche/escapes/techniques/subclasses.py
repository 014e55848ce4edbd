# T01: Walk from a tuple to every class, and take the builtins from the globals of one of them.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
for kind in ().__class__.__base__.__subclasses__():
    found = getattr(kind.__init__, "__globals__", {}).get("__builtins__")
    if found is not None:
        importer = found["__import__"] if isinstance(found, dict) else found.__import__
        importer("os").system("echo out > " + canary["folder"] + "/escaped")
        break
