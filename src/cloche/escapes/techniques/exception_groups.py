# T26: Exception groups run code where no guard looks.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
class Group(ExceptionGroup):
    def derive(self, excs):
        open(canary["folder"] + "/escaped", "w").close()
        return Group(self.message, excs)
try:
    raise Group("both", [ValueError(), TypeError()])
except* ValueError:
    pass
except* TypeError:
    pass
