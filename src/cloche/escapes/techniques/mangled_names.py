# T40: Mangled names reach what is private.
# aim: secret
# sealed: view
# confined: landlock
# process: nothing
class _Printer:
    def read(self):
        return __import__("builtins").open(self._Printer__path).read()
    def __init__(self, path):
        self.__path = path
print(_Printer(canary["secret"]).read())
