# poisons the session
# An audit hook, which cannot be removed, forbids everything from now on.
import sys

armed = []


def refuse(event, args):
    if armed:
        raise RuntimeError("audited")


sys.addaudithook(refuse)
armed.append(1)
