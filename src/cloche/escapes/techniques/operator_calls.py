# T31: Operators call what a class says they call.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
class Runner:
    __add__ = __matmul__ = __contains__ = lambda self, code: exec(code)
Runner() + ("open(%r, 'w').close()" % (canary["folder"] + "/escaped"))
