# T35: Conversions in f-strings call methods of the user's classes.
# aim: written
# stopped by: view
class Sneaky:
    def __format__(self, specification):
        open(canary["folder"] + "/escaped", "w").close()
        return ""
f"{Sneaky():{'x'}}"
