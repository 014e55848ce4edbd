"""Shared memory where no cgroup counts it: kept in files of the session, which have a quota.

The limit on data does not see memory that is shared and has no file behind it, so the filter refuses that. Python's
`mmap.mmap(-1, n)` asks for just this, and gets the same from a file without a name.
"""

from __future__ import annotations

from cloche_guest.jail.replaced_modules import replace_when_imported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def adapt_modules() -> None:
    """Have `mmap` use files."""
    replace_when_imported("mmap", _with_files)


def _with_files(module: Any) -> None:
    original = module.mmap
    shared: int = module.MAP_SHARED
    anonymous: int = module.MAP_ANONYMOUS

    class mmap(original):  # type: ignore[misc,valid-type] # noqa: N801 - known to users by this name
        __doc__ = original.__doc__

        def __new__(cls, fileno: int, length: int, flags: int = shared, *args: Any, **kwargs: Any) -> Any:
            if fileno != -1 or not flags & shared or length <= 0:
                return original.__new__(cls, fileno, length, flags, *args, **kwargs)
            file = _nameless_file(length)
            import posix

            try:
                return original.__new__(cls, file, length, flags & ~anonymous, *args, **kwargs)
            finally:
                posix.close(file)

    mmap.__module__, mmap.__qualname__ = "mmap", "mmap"
    module.mmap = mmap


def _nameless_file(length: int) -> int:
    """All of its space is there: what does not fit into the quota is an error here, and no signal later."""
    import os

    folder = os.environ.get("TMPDIR") or "/tmp"
    file = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(file, 0, length)
    except OSError:
        os.close(file)
        raise
    return file
