"""What to say when this process cannot open anything more."""

from __future__ import annotations

import errno

from cloche.errors import StartError

_SPENT = (errno.EMFILE, errno.ENFILE)


def none_left(exc: BaseException) -> StartError | None:
    """The error for a session that could not be had because of that; None where `exc` has another reason."""
    reason: BaseException | None = exc
    while reason is not None:
        if isinstance(reason, OSError) and reason.errno in _SPENT:
            return StartError(
                "there are no file descriptors left for another session",
                cause=str(reason.strerror),
                remedy="destroy sessions that are not needed, or raise the limit (ulimit -n); a session takes up to 13",
            )
        reason = reason.__cause__ or reason.__context__
    return None
