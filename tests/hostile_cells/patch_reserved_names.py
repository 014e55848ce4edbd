# Keys that raise when they are compared with ours, and keys that are no names.
class Key(str):
    __slots__ = ()
    armed = False

    def __hash__(self):
        return str.__hash__("rlm_query")

    def __eq__(self, other):
        if Key.armed:
            raise SystemExit("compared")
        return False


del rlm_query
globals()[Key("rlm_query")] = 1
globals()[5] = globals()[None] = globals()[()] = "not a name"
Key.armed = True
