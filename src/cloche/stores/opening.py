"""`open_store`: a store by its address."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from cloche.errors import RequestError
from cloche.paths import state_dir

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.stores.interface import Quota, Store

FORMS = "sqlite:///folder, redis://host:6379/0, s3://bucket/prefix"
VARIABLE = "CLOCHE_STORE"
_S3_OPTIONS = ("endpoint", "region")


def open_store(
    url: str | None = None, *, quota: Quota | None = None, clock: Callable[[], float] | None = None
) -> Store:
    """The store at `url`; without one, what ``CLOCHE_STORE`` says, or a folder among the user's own.

    ``sqlite:///folder``, ``redis://host:6379/0`` (also ``rediss://`` and ``unix://``), ``s3://bucket/prefix``, where
    ``?endpoint=...&region=...`` may follow and credentials come from ``AWS_*`` variables.
    """
    url = url or os.environ.get(VARIABLE) or "sqlite://"
    if not isinstance(url, str):
        raise RequestError(f"the address of a store is a text, not {type(url).__name__}", remedy=f"one of: {FORMS}")
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        from cloche.stores.embedded import EmbeddedStore

        if parts.netloc:
            raise RequestError(
                f"{url!r} names a host", remedy=f"three slashes before a folder: sqlite:///{parts.netloc}{parts.path}"
            )
        if parts.path and not parts.path.startswith("/"):
            raise RequestError(
                f"{url!r} does not say where its folder is", remedy=f"sqlite://{os.path.abspath(parts.path)}"
            )
        return EmbeddedStore(unquote(parts.path) or state_dir() / "store", quota=quota, clock=clock)
    if parts.scheme in ("redis", "rediss", "unix"):
        from cloche.stores.redis_store import RedisStore

        return RedisStore(url, quota=quota, clock=clock)
    if parts.scheme == "s3" and parts.netloc:
        from cloche.stores.s3_store import S3Store

        return S3Store(parts.netloc, parts.path, quota=quota, clock=clock, **_s3_options(url, parts.query))
    shown = url.replace(f":{parts.password}@", ":...@") if parts.password else url
    raise RequestError(f"{shown!r} is no address of a store", remedy=f"one of: {FORMS}")


def _s3_options(url: str, query: str) -> dict[str, Any]:
    options: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in _S3_OPTIONS:
            raise RequestError(f"{url!r}: there is no option {name!r}", remedy=f"one of: {', '.join(_S3_OPTIONS)}")
    if options.get("endpoint", "").startswith("http://"):
        options["client_options"] = {"allow_http": True}
    return options
