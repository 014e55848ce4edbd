# T34: A string that lies about what it equals.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
class Liar(str):
    def __eq__(self, other):
        return True
    def __hash__(self):
        return hash("math")
    def startswith(self, *prefix):
        return False
name = Liar("io")
print(__import__(str(name)).open(str(Liar(canary["secret"]))).read())
