# Comparing never ends, and the session's own dictionary has such a key in the place of one of ours.
class Slow(str):
    __slots__ = ()
    armed = False

    def __hash__(self):
        return str.__hash__("llm_query")

    def __eq__(self, other):
        while Slow.armed:
            pass
        return False


del llm_query
globals()[Slow("llm_query")] = 1
x = Slow("x")
Slow.armed = True
