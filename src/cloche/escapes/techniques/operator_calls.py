# T31: Operators call what a class says they call.
# aim: written
# stopped by: view
class Runner:
    __add__ = __matmul__ = __contains__ = lambda self, code: exec(code)
Runner() + ("open(%r, 'w').close()" % (canary["folder"] + "/escaped"))
