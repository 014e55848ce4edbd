# T43: Modules of the standard library that carry sys along.
# aim: written
# sealed: view
# confined: landlock
# process: nothing
import collections
import contextlib
import dataclasses
import enum
import typing

for module in (collections, typing, enum, contextlib, dataclasses):
    found = getattr(module, "sys", None) or getattr(module, "_sys", None)
    if found is not None:
        found.modules["os"].makedirs(canary["folder"] + "/escaped", exist_ok=True)
