"""The guest: one small kernel that runs inside every wall. Standard library only, CPython 3.8 and later."""
