# T38: Annotations are code that runs later.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import typing


def later(x: "open(canary['folder'] + '/escaped', 'w').close()"): ...
later.__globals__["canary"] = canary
try:
    typing.get_type_hints(later)
except TypeError:
    pass
