"""The guest under a host that is not ours: plain pipes on stdin and stdout, and nothing else."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from tests.guest.sessions import executable

from cloche.backends.interpreter import examine

__all__ = ["executable"]


class Host:
    """Writes requests and reads what comes, one line each."""

    def __init__(self, python: str) -> None:
        self.process = subprocess.Popen(
            examine(python).command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.number = 0
        self.notes: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any], body: bytes = b"") -> None:
        self.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" + body)
        self.stdin.flush()

    def receive(self) -> dict[str, Any]:
        line = self.stdout.readline()
        assert line, "the guest ended"
        message: dict[str, Any] = json.loads(line)
        if message.get("attachment"):
            message["body"] = self.stdout.read(message["attachment"])
        return message

    def call(self, method: str, body: bytes | None = None, **params: Any) -> dict[str, Any]:
        """The reply; notifications that came before it are noted."""
        self.number += 1
        request: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if body is not None:
            request["attachment"] = len(body)
        self.send(request, body or b"")
        while True:
            message = self.receive()
            if "method" not in message:
                assert message["id"] == self.number
                return message
            self.notes.append(message)

    def run(self, code: str) -> dict[str, Any]:
        self.notes = []
        result: dict[str, Any] = self.call("execute", code=code)["result"]
        return result

    def output(self, stream: str) -> str:
        """What the last cell wrote."""
        return "".join(
            note["params"]["text"]
            for note in self.notes
            if note["method"] == "output" and note["params"]["stream"] == stream
        )

    def close(self) -> None:
        with self.process:
            self.stdin.close()


@pytest.fixture
def host(executable: str) -> Iterator[Host]:
    made = Host(executable)
    yield made
    made.close()
    assert made.process.returncode == 0


def test_a_cell_runs_without_any_greeting(host: Host):
    result = host.run("x = 20\nx + 1")
    assert (result["outcome"], result["value"]) == ("ok", "21")
    assert host.run("x")["value"] == "20"


def test_what_python_prints_comes_as_notifications_before_the_reply(host: Host):
    host.run("import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert (host.output("stdout"), host.output("stderr")) == ("out\n", "err\n")


def test_what_is_printed_comes_at_once_and_not_with_the_reply(host: Host):
    host.send({"id": 1, "method": "execute", "params": {"code": "print('first')\nllm_query('wait')"}})
    first, second = host.receive(), host.receive()
    assert (first["method"], first["params"]["text"]) == ("output", "first\n")
    assert (second["method"], second["params"]["name"]) == ("bridge", "llm_query")
    host.send({"id": second["id"], "result": "go on"})
    assert host.receive()["result"]["value"] == "'go on'"
    host.number = 1


def test_a_cell_whose_call_was_given_up_because_it_is_being_stopped_stops_there(host: Host):
    code = "x = 1\ntry: llm_query('wait')\nexcept Exception: x = 'swallowed'\nx = 'went on'"
    host.send({"id": 1, "method": "execute", "params": {"code": code}})
    call = host.receive()
    error = {"code": -32000, "message": "the cell was stopped", "data": {"type": "Abandoned"}}
    host.send({"id": call["id"], "error": error})
    result = host.receive()["result"]
    assert (result["outcome"], result["interrupts"]) == ("interrupted", 1)
    host.number = 1
    assert host.run("x")["value"] == "1"


def test_what_is_written_past_python_is_captured_too(host: Host):
    host.run("import os\nos.write(1, b'raw out')\nos.write(2, b'raw err')")
    assert (host.output("stdout"), host.output("stderr")) == ("raw out", "raw err")


def test_what_children_write_is_captured_and_does_not_reach_the_wire(host: Host):
    host.run("import subprocess\nsubprocess.run(['sh', '-c', 'echo child; echo trouble >&2'])")
    assert (host.output("stdout"), host.output("stderr")) == ("child\n", "trouble\n")
    assert host.run("1 + 1")["value"] == "2"


def test_a_large_output_of_a_child_is_cut_with_a_notice(host: Host):
    host.run("import subprocess\nsubprocess.run(['sh', '-c', 'head -c 9000000 /dev/zero | tr \"\\\\0\" x'])")
    text = host.output("stdout")
    assert text.endswith("bytes omitted]")
    assert 8_000_000 < len(text) < 9_000_000
    host.run("print('again')")
    assert host.output("stdout") == "again\n"


def test_characters_are_whole_wherever_the_buffer_ends(host: Host):
    for character in ("é", "€", "😀"):
        host.run(f"print('a' + {character!r} * 20000)")
        assert host.output("stdout") == "a" + character * 20000 + "\n"
    halves = "import sys\nfor half in (b'\\xc3', b'\\xa9'):\n    sys.stdout.buffer.write(half)\n    sys.stdout.flush()"
    host.run(halves)
    assert host.output("stdout") == "é"


def test_a_large_text_comes_in_pieces_that_any_host_can_take(host: Host):
    host.run("print('😀' * 300_000)")
    assert host.output("stdout") == "😀" * 300_000 + "\n"
    assert max(len(note["params"]["text"]) for note in host.notes) <= 65536


def test_bytes_that_are_no_text_are_replaced(host: Host):
    host.run("import sys\nsys.stdout.buffer.write(b'a\\xffb\\xe2')\nsys.stdout.flush()")
    assert host.output("stdout") == "a\ufffdb\ufffd"


def test_stdin_is_empty_and_not_the_wire(host: Host):
    assert host.run("import sys\nsys.stdin.read()")["value"] == "''"
    assert host.run("import os\nos.read(0, 10)")["value"] == "b''"


@pytest.mark.parametrize(
    "code",
    ["import sys\nsys.stdout = None", "import sys\nsys.stdout.close()", "import sys\nsys.stdout.detach()",
     "import os\nos.close(1)\nos.close(2)", "import os\nos.dup2(0, 1)"],
)  # fmt: skip
def test_streams_that_a_cell_took_apart_are_repaired(host: Host, code):
    host.run(code)
    host.run("print('text')\nimport os\nos.write(1, b'raw')")
    assert sorted(host.output("stdout")) == sorted("text\nraw")


def test_a_context_is_given_with_its_request(host: Host):
    assert "result" in host.call("context", body="ctx é".encode("utf-16-le"), encoding="utf-16-le")
    assert host.run("context")["value"] == "'ctx é'"
    assert "result" in host.call("context", value={"$": "tuple", "v": [1]})
    assert host.run("context")["value"] == "(1,)"
    assert "result" in host.call("context", none=True)
    assert host.run("'context' in globals()")["value"] == "False"


def test_the_versions_are_exchanged(host: Host, executable):
    result = host.call("initialize", protocol=1)["result"]
    assert result["protocol"] == 1
    assert host.call("initialize", protocol=99)["error"]["code"] == -32600


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("nonsense", {}, -32601), ("execute", {}, -32602), ("execute", {"code": 5}, -32602),
        ("set_variable", {"name": "not a name", "value": 1}, -32602),
        ("set_variable", {"name": "llm_query", "value": 1}, -32602),
        ("set_variable", {"name": "x", "value": {"$": "nonsense"}}, -32602), ("get_variable", {}, -32602),
        ("restore", {}, -32602),
        ("restore", {"entries": [{}]}, -32003), ("context", {"encoding": "nosuch"}, -32602),
        ("complete", {"text": 5}, -32602),
    ],
)  # fmt: skip
def test_a_bad_request_is_answered_and_changes_nothing(host: Host, method, params, code):
    host.run("x = 'kept'")
    assert host.call(method, **params)["error"]["code"] == code
    assert host.run("x")["value"] == "'kept'"


@pytest.mark.parametrize("params", [[], "x", 5, [1], None])
def test_parameters_that_are_no_object_are_answered(host: Host, params):
    host.send({"id": 1, "method": "execute", "params": params})
    assert host.receive()["error"]["code"] in (-32602, -32603)


def test_a_notification_has_no_reply(host: Host):
    host.send({"method": "execute", "params": {"code": "x = 7"}})
    assert host.run("x")["value"] == "7"


def test_several_requests_at_once_are_answered_in_order(host: Host):
    for number in range(1, 6):
        host.send({"id": number, "method": "execute", "params": {"code": f"{number} * 10"}})
    assert [host.receive()["result"]["value"] for _ in range(5)] == ["10", "20", "30", "40", "50"]
    host.number = 5


def test_a_snapshot_travels_as_raw_bytes(host: Host):
    host.run("x = [1, 2]")
    reply = host.call("snapshot")
    entries = reply["result"]["entries"]
    assert [entry["names"] for entry in entries] == [["x"]]
    host.run("del x")
    assert host.call("restore", entries=entries, body=reply["body"])["result"]["restored"] == ["x"]
    assert host.run("x")["value"] == "[1, 2]"


def test_shutdown_is_answered_and_ends_it(host: Host):
    assert host.call("shutdown")["result"] == {}
    assert host.process.wait(20) == 0


def test_it_ends_when_the_host_goes_away(host: Host):
    host.run("1")
    host.stdin.close()
    assert host.process.wait(20) == 0


def test_nothing_is_on_the_real_stderr(executable):
    host = Host(executable)
    host.run("import sys, os\nprint('x', file=sys.stderr)\nos.write(2, b'y')\n1/0")
    host.stdin.close()
    assert host.process.stderr is not None
    assert host.process.stderr.read() == b""
    host.close()
