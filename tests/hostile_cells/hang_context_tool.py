# Catastrophic backtracking inside a function of ours.
context = "a" * 80 + "b"
count_matches("(a+)+$")
