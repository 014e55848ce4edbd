# Saving the variable exits, recurses, or gives something else.
class Exit:
    def __reduce__(self):
        raise SystemExit(1)


class Again:
    def __reduce__(self):
        return (Again, (Again(),))


class Wrong:
    def __reduce_ex__(self, protocol):
        return "no such name"


x = [Exit(), Again(), Wrong()]
y, z = Again(), Wrong()
