# T29: Decorators call without a call.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
source = lambda kind: "open(%r, 'w').close()" % (canary["folder"] + "/escaped")
@exec
@source
class Anything:
    pass
