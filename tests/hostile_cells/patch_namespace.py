# The namespace is emptied, and another module takes its name.
import sys
import types

sys.modules["__main__"] = types.ModuleType("__main__")
globals().clear()
