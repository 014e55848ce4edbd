# Errors that are each other's cause.
x, y = ValueError("one"), ValueError("two")
x.__cause__, y.__cause__ = y, x
x.__context__, y.__context__ = y, x
raise x
