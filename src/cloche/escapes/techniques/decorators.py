# T29: Decorators call without a call.
# aim: written
# stopped by: view
source = lambda kind: "open(%r, 'w').close()" % (canary["folder"] + "/escaped")
@exec
@source
class Anything:
    pass
