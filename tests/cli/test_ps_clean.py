"""``cloche ps`` and ``cloche clean``: what a crash leaves is found and removed, what lives is left alone."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import DEADLINE, Cloche

HOST = """
import os, sys, cloche
sandbox = cloche.create_sandbox(backend=os.environ.get("BACKEND", "native"))
for line in sys.stdin:
    sandbox.execute(line, on_output=lambda stream, text: print(text, end="", flush=True))
"""


class Host:
    """Another process that uses Cloche; it runs each line it is sent."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ask(self, code: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(code + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def host(cloche: Cloche, **variables: str) -> Iterator[Host]:
    environment = {**cloche.environment, **variables}
    command = [sys.executable, "-c", HOST]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield Host(process)
        finally:
            process.kill()


def only_session(cloche: Cloche) -> Any:
    sessions = cloche("ps", "--json").json
    assert len(sessions) == 1
    return sessions[0]


def test_nothing_is_listed_where_nothing_is(cloche: Cloche) -> None:
    assert cloche("ps").stdout == "no sessions\n"
    assert cloche("clean").stdout == "nothing to clean\n"


def test_a_live_session_is_listed_and_left_alone(cloche: Cloche) -> None:
    with host(cloche) as other:
        assert other.ask("x = 'alive'; print('ready')") == "ready\n"
        session = only_session(cloche)
        assert (session["state"], session["host_pid"], session["guest_alive"]) == ("live", other.process.pid, True)
        assert cloche("clean").stdout == "nothing to clean\n1 live session left alone\n"
        assert other.ask("print(x)") == "alive\n"


def test_a_session_that_has_no_guest_yet_is_live(cloche: Cloche) -> None:
    code = (
        "import cloche, sys\ns = cloche.create_sandbox(backend='native')\ns.put_file('a', b'')\n"
        "print('ready', flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=cloche.environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        (folder,) = cloche.sessions.iterdir()
        os.utime(folder, (0, 0))
        assert cloche("clean", "--json").json["live"] == 1
        assert folder.exists()


def test_what_a_killed_host_left_is_listed_and_removed(cloche: Cloche) -> None:
    with host(cloche) as other:
        other.ask("open('big', 'w').close(); print('ready')")
        other.kill()
    assert only_session(cloche)["state"] == "left over"
    listing = cloche("ps").stdout
    assert "left over" in listing
    assert "cloche clean" in listing
    done = cloche("clean", "--json")
    assert (done.code, len(done.json["removed"]), done.json["failed"]) == (0, 1, [])
    assert cloche.left_behind() == []


def test_a_dry_run_removes_nothing(cloche: Cloche) -> None:
    with host(cloche) as other:
        other.ask("print('ready')")
        other.kill()
    assert cloche("clean", "--dry-run").stdout.startswith("would remove ")
    assert len(cloche.left_behind()) == 1


def test_a_guest_that_outlived_its_host_is_ended(cloche: Cloche) -> None:
    with host(cloche, CLOCHE_MASK_LAYERS="lifeline") as other:
        pid = int(other.ask("import os; print(os.getpid(), flush=True); exec('while True: pass')"))
        other.kill()
    watch = os.pidfd_open(pid)
    try:
        assert only_session(cloche)["guest_alive"]
        assert cloche("clean").code == 0
        ready, _, _ = select.select([watch], [], [], DEADLINE)  # readable when the process has ended
        assert ready
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(watch, signal.SIGKILL)
        os.close(watch)
    assert cloche.left_behind() == []


def test_a_folder_without_a_record_is_a_leftover_after_a_while(cloche: Cloche) -> None:
    cloche.sessions.mkdir(mode=0o700)
    folder = cloche.sessions / "0123456789ab"
    folder.mkdir(mode=0o700)
    assert cloche("ps", "--json").json == []  # somebody may be making it this moment
    os.utime(folder, (0, 0))
    assert cloche("clean").code == 0
    assert cloche.left_behind() == []


def test_a_folder_named_by_mistake_loses_nothing(cloche: Cloche, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "thesis").mkdir(parents=True)
    (home / "thesis" / "chapter").write_text("years of work")
    (home / "notes").write_text("more work")
    for path in (home / "thesis", home / "notes"):
        os.utime(path, (0, 0))
    home.chmod(0o755)
    assert "is open to others" in cloche("clean", CLOCHE_SESSIONS_DIR=str(home)).stderr
    home.chmod(0o700)
    assert cloche("clean", CLOCHE_SESSIONS_DIR=str(home)).stdout == "nothing to clean\n"
    assert (home / "thesis" / "chapter").exists()
    assert (home / "notes").exists()


def test_folders_the_guest_locked_are_removed_too(cloche: Cloche) -> None:
    with host(cloche) as other:
        other.ask("import os; os.mkdir('d'); open('d/x', 'w').close(); os.chmod('d', 0); print('ready')")
        other.kill()
    assert cloche("clean").code == 0
    assert cloche.left_behind() == []


ELSEWHERE = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]


def from_another_container(cloche: Cloche, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command where processes have other numbers, with the same folder of sessions."""
    started = ELSEWHERE if os.getuid() else [word for word in ELSEWHERE if "user" not in word]
    return subprocess.run(
        [*started, *cloche.command(*arguments)], cwd=cloche.cwd, env=cloche.environment, capture_output=True, text=True,
        timeout=DEADLINE, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("backend", ["native", "jail"])
def test_a_session_of_another_container_is_live_and_left_alone(cloche: Cloche, backend: str) -> None:
    with host(cloche, BACKEND=backend) as other:
        assert other.ask("kept = 7; open('mine', 'w').write('x'); print('ready')") == "ready\n"
        folder = only_session(cloche)["path"]
        os.utime(folder, (1, 1))  # it was not made this moment
        listed = from_another_container(cloche, "ps", "--json")
        if "Operation not permitted" in listed.stderr:
            pytest.skip("no process namespace can be made here")
        assert [session["state"] for session in json.loads(listed.stdout)] == ["live"]
        assert "1 live session left alone" in from_another_container(cloche, "clean").stdout
        assert other.ask("print(kept, open('mine').read())") == "7 x\n"


def test_what_a_killed_host_left_is_removed_from_another_container_too(cloche: Cloche) -> None:
    with host(cloche) as other:
        other.ask("print('ready')")
        folder = only_session(cloche)["path"]
        other.kill()
        os.utime(folder, (1, 1))
        removed = from_another_container(cloche, "clean", "--json")
        assert [session["path"] for session in json.loads(removed.stdout)["removed"]] == [folder]
    assert cloche.left_behind() == []
