# T64: Representations that run code wherever a value is shown: in the host, if the host shows it.
# aim: secret
# sealed: process, view
# confined: process, landlock
# process: nothing
class Evil:
    def __repr__(self):
        try:
            return open(canary["secret"]).read()
        except OSError:
            return "nothing"
    __str__ = _repr_html_ = __rich__ = __repr__
evil = Evil()
evil
