"""What a process has at a moment: everything that a session could leave behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Belongings:
    """Counts; memory in kilobytes."""

    processes: int
    threads: int
    descriptors: int
    cgroups: int
    mounts: int
    files: int
    memory: int

    @classmethod
    def of(cls, pid: int, folder: Path) -> Belongings:
        """Those of `pid`; `folder`: where it keeps files."""
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return cls(
            processes=len(list(descendants(pid))),
            threads=int(status["Threads"]),
            descriptors=len(os.listdir(f"/proc/{pid}/fd")),
            cgroups=sum(1 for _ in groups_of(pid)),
            mounts=len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines()),
            files=sum(len(names) for _, _, names in os.walk(folder)),
            memory=int(status["VmRSS"].split()[0]),
        )

    def __str__(self) -> str:
        return ", ".join(f"{value} {name}" for name, value in asdict(self).items())


def descendants(pid: int) -> Iterator[int]:
    """Processes below a process."""
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                yield int(child)
                yield from descendants(int(child))


def groups_of(pid: int, top: Path = CGROUPS, depth: int = 6) -> Iterator[Path]:
    """Groups of a process's sessions, wherever they are."""
    with suppress(OSError):
        for entry in os.scandir(top):
            if not entry.is_dir(follow_symlinks=False) or not depth:
                continue
            if entry.name.startswith(f"cloche-{pid}-"):
                yield from (Path(found.path) for found in os.scandir(entry.path) if found.is_dir())
            else:
                yield from groups_of(pid, Path(entry.path), depth - 1)
