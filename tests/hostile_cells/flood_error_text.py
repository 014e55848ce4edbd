# An error whose text has fifty megabytes, with a long chain behind it.
text = "x" * 50_000_000
try:
    raise ValueError(text)
except ValueError:
    raise KeyError(text)
