"""Ways out of a sandbox, tried for real: cells that aim at something of the host's, and canaries that tell of it.

The verdict is about effects on the host only: a file written, a secret read, a connection that arrived, a process
touched, something left running. What a cell sees on its way (an error, an empty folder, a made-up file) differs from
wall to wall and proves nothing.
"""

from cloche.escapes.canaries import Canaries, Effect
from cloche.escapes.runner import Outcome, run_technique, run_techniques
from cloche.escapes.standin import run_apart, run_as_user, run_outside
from cloche.escapes.technique import Expectation, Technique, all_techniques, find_technique

__all__ = [
    "Canaries",
    "Effect",
    "Expectation",
    "Outcome",
    "Technique",
    "all_techniques",
    "find_technique",
    "run_apart",
    "run_as_user",
    "run_outside",
    "run_technique",
    "run_techniques",
]
