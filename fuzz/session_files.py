"""Fuzz target: session files that somebody else made. First line: the manifest; then the journal.

Sizes and digests are made to fit, so that what is behind them is reached; bytes that are no JSON are read as a file.
"""

from __future__ import annotations

import hashlib
import json

from fuzz.engine import main

from cloche.errors import RequestError
from cloche.journal.container import pack
from cloche.journal.recording import context_of
from cloche.journal.session_file import SessionFile

_MANIFEST = {
    "format": "cloche-session", "version": 1, "name": "n", "created": 1.0, "saved": 2, "cloche": "0", "backend": "b",
    "isolation": "NONE", "python": "3", "implementation": "c", "platform": "l", "packages": {"numpy": "2"},
    "limits": {"timeout_ms": 1}, "bridges": ["llm_query"], "tools": [{"name": "t", "doc": "d"}],
    "variables": [{"name": "x", "type": "int", "size": 1, "shares_with": []}],
    "skipped": [{"name": "g", "reason": "r"}],
    "artifacts": ["a/b"], "left_out": [{"name": "c", "reason": "r"}],
}  # fmt: skip
_JOURNAL = (
    {"kind": "cell", "code": "1", "outcome": "error", "stdout": "", "stderr": "", "value": None, "error": "E",
     "exception": {"type": "T", "message": "m", "line": 1, "traceback": "t"}, "exit_code": 1, "session_state": "kept",
     "ended": 1.0, "duration_ms": 1, "timeout_ms": 5, "files": ["f"],
     "calls": [{"name": "llm_query", "args": ["p"], "kwargs": {"k": {"$": "set", "v": [1]}}, "result": 1,
                "failure": ["ValueError", "m"]}]},
    {"kind": "context", "value": {"$": "tuple", "v": [1]}},
    {"kind": "context", "text": "0" * 64},
    {"kind": "variable", "name": "x", "value": 1},
    {"kind": "file", "path": "a", "size": 1, "input": None},
    {"kind": "resumed"},
)  # fmt: skip
CORPUS = tuple(
    b"\n".join(json.dumps(line).encode() for line in (_MANIFEST, *journal)) for journal in (_JOURNAL, _JOURNAL[:1], ())
)


def target(data: bytes) -> None:
    """A session, or an error of ours."""
    manifest, _, journal = data.partition(b"\n")
    try:
        parsed = json.loads(manifest)
    except (ValueError, RecursionError):
        parsed = None
    members = {"journal.jsonl": journal, "files/0": b"content"}
    if type(parsed) is dict:
        parsed.setdefault(
            "parts",
            {name: {"size": len(part), "sha256": hashlib.sha256(part).hexdigest()} for name, part in members.items()},
        )
        try:
            data = pack({"manifest.json": json.dumps(parsed).encode(), **members})
        except RecursionError:
            return
    try:
        session = SessionFile.from_bytes(data)
    except RequestError:
        return
    for event in session.summary.journal:
        event.to_data()
        if getattr(event, "kind", None) == "context":
            try:
                context_of(event, session.inputs)  # type: ignore[arg-type]  # only a step has a kind
            except (LookupError, ValueError):
                continue
    if session.summary.artifacts:
        assert not any(part in ("", ".", "..") for path in session.artifacts for part in path.split("/"))
    session.to_bytes()


if __name__ == "__main__":
    main(target, CORPUS)
