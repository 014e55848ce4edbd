# T22: A mapping in format_map reads attributes too.
# aim: secret
# sealed: process
# confined: process
# process: process
class Names(dict):
    def __missing__(self, name):
        return lookup
print("{anything.__globals__[given]}".format_map(Names()))
