# A loop in C that never looks at signals.
import collections
import itertools

collections.deque(itertools.repeat(None), maxlen=0)
