# T33: type and __build_class__ make classes from code that no transformer saw.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import builtins

code = compile("import os; os.mkdir(%r)" % (canary["folder"] + "/escaped"), "x", "exec")
builtins.__build_class__(type(lambda: 0)(code, {"__builtins__": builtins}), "Made")
