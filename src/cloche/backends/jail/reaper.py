"""The reaper: a tiny process that outlives its host by a moment and removes what that left, even after a kill -9.

It holds the reading end of a pipe whose only writing end is the host's, and reads: the pipe ends when the host does.
The processes and mounts of all sessions end by themselves then, with the namespaces that hold them; what is left is
the folders of their cgroups and the register. Their names are known before they exist, so the reaper hears of them
first.
"""

from __future__ import annotations

import os
from contextlib import suppress

from cloche.backends.jail.cgroups import SHELL
from cloche.backends.jail.programs import programs
from cloche.backends.jail.spawning import Child

END_PATIENCE = 5.0
# A folder is one of groups when it is one itself; anything else is ours to remove as it is. `kill` and `read` are the
# shell's own; `rmdir` is one process for all groups of a tree.
_SCRIPT = """
trap "" 1 2 3 13 15
while IFS= read -r line; do set -- "$@" "$line"; done
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  left=
  for path do
    if [ -f "$path/cgroup.procs" ]; then
      for group in "$path"/*/; do
        [ -f "$group/cgroup.procs" ] || continue
        while read -r pid; do [ "$pid" -gt 1 ] && kill -9 "$pid"; done < "$group/cgroup.procs"
      done
      rmdir "$path"/*/ "$path"
    elif [ -e "$path" ]; then
      rm -rf "$path"
    fi
    [ -e "$path" ] && left=1
  done
  [ -n "$left" ] || break
  sleep 0.05
done
"""


class Reaper:
    """A running reaper."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        """`paths`: files, folders, and folders of groups."""
        self._told = {*paths}
        reader, self._writer = os.pipe()
        try:
            # In a session of its own: what ends the host from the keyboard, or all of its group, does not reach it.
            self._process = Child([*_command(), *paths], stdin=reader, environment={"PATH": "/usr/bin:/bin"})
        except OSError:
            os.close(self._writer)
            raise
        finally:
            os.close(reader)

    @property
    def alive(self) -> bool:
        """Whether it still is there."""
        return self._process.alive

    def tell(self, path: str) -> None:
        """Of a file or folder that is about to be made."""
        if path not in self._told:
            self._told.add(path)
            with suppress(OSError):  # it is gone; the next start sweeps
                os.write(self._writer, os.fsencode(path) + b"\n")

    def dismiss(self) -> None:
        """Everything is removed; let it look, and end."""
        os.close(self._writer)
        self._process.wait(END_PATIENCE)

    def leave(self) -> None:
        """In a forked child: a second holder of the pipe would keep the reaper from seeing our parent's end."""
        self._process.leave()
        os.close(self._writer)


def _command() -> list[str]:
    compiled = programs()
    if compiled is not None:
        return [compiled.init, "--reap"]
    return [SHELL, "-c", _SCRIPT, "cloche-reaper"]  # without a shell either there is no reaper: the next start sweeps
