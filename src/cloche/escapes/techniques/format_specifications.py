# T35: Conversions in f-strings call methods of the user's classes.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
class Sneaky:
    def __format__(self, specification):
        open(canary["folder"] + "/escaped", "w").close()
        return ""
f"{Sneaky():{'x'}}"
