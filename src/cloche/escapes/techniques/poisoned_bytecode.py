# T62: Compiled code put in place of a module that the host imports.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import py_compile

open("ledger.py", "w").write("poisoned = True")
py_compile.compile("ledger.py", cfile=canary["folder"] + "/__pycache__/ledger.pyc")
