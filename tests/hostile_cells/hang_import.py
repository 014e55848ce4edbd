# A module that never finishes being imported.
with open("endless_module.py", "w") as handle:
    handle.write("while True:\n    try:\n        while True: pass\n    except BaseException: pass\n")
import endless_module
