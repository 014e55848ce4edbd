# Catastrophic backtracking.
import re

re.match("(a+)+$", "a" * 80 + "b")
