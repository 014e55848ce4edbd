# Reads where nothing is.
import ctypes

ctypes.string_at(0)
