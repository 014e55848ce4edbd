# poisons the session
# Builtins that lie.
import builtins

builtins.repr = lambda value: "lie"
builtins.len = lambda value: 0
builtins.isinstance = lambda value, kind: True
builtins.type = lambda value: int
