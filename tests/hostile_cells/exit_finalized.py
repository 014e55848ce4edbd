# Takes the interpreter down from inside.
import ctypes

ctypes.pythonapi.Py_FinalizeEx()
