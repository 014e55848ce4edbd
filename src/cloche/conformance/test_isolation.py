"""What a cell sees of the host: only what it was given."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cloche.isolation import Isolation

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox
    from cloche.sandbox import SessionSandbox


def test_a_secret_in_the_hosts_environment_is_not_visible(
    open_sandbox: OpenSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-secret")
    result = open_sandbox().execute("import os; 'SOME_API_KEY' in os.environ or 'sk-secret' in str(os.environ)")
    assert result.value == "False"


def test_the_environment_is_an_allow_list(open_sandbox: OpenSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONPATH", "PYTHONSTARTUP", "LD_PRELOAD_X", "AWS_PROFILE", "CLOCHE_UNHEARD_OF"):
        monkeypatch.setenv(name, "1")
    result = open_sandbox().execute("import os; sorted(os.environ)")
    assert "AWS" not in str(result.value)
    assert "PYTHON" not in str(result.value)
    assert "CLOCHE" not in str(result.value)


def test_the_policy_gives_environment_variables(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(environment={"REGION": "north"})
    assert sandbox.execute("import os; os.environ['REGION']").value == "'north'"


def test_home_and_temporary_folder_are_not_the_hosts(sandbox: SessionSandbox) -> None:
    sandbox.execute("import os, tempfile; places = [os.path.expanduser('~'), tempfile.gettempdir()]").check()
    home, temporary = sandbox.get_variable("places")
    assert home != str(Path.home())
    assert temporary != "/tmp"


def test_the_hosts_modules_are_not_in_the_guest(sandbox: SessionSandbox) -> None:
    code = "import sys; [name for name in sys.modules if name.split('.')[0] in ('cloche', 'pytest', 'anyio')]"
    assert sandbox.execute(code).value == "[]"


def test_the_guest_has_no_command_line(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("import sys; sys.argv").value == "['']"


def test_results_report_the_wall(sandbox: SessionSandbox) -> None:
    promised = sandbox.isolation
    result = sandbox.execute("1")
    assert result.isolation is promised
    assert sandbox.isolation is promised


def test_results_report_the_layers_of_the_wall(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("1")
    assert len(result.layers) > 0 or result.isolation is Isolation.NONE


def test_a_wall_that_is_good_enough_is_accepted(open_sandbox: OpenSandbox) -> None:
    own = open_sandbox().isolation
    assert open_sandbox(minimum_isolation=own).execute("1").success


@pytest.mark.cloche_needs("network")
def test_the_network_is_off_when_the_policy_says_so(open_sandbox: OpenSandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = open_sandbox(network=False).execute(f"import socket; socket.create_connection(('127.0.0.1', {port}))")
    assert result.outcome == "error"
    assert "network is off" in str(result.guidance)


@pytest.mark.cloche_needs("subprocess")
def test_the_memory_limit_holds(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(memory_bytes=200 * 1024 * 1024)
    result = sandbox.execute("blocks = [bytearray(10_000_000) for _ in range(100)]")
    assert (result.outcome, result.exit_code) == ("memory", 137)
    assert "memory_bytes" in str(result.guidance)


@pytest.mark.cloche_needs("subprocess")
def test_the_limit_on_open_files_holds(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(open_files=64)
    code = "files = []\nwhile len(files) < 1000: files.append(open('f', 'w'))"
    assert "Too many open files" in str(sandbox.execute(code).error)
    assert sandbox.execute("files.clear()").success


@pytest.mark.cloche_needs("subprocess")
def test_the_guest_inherits_no_descriptor_of_the_host(open_sandbox: OpenSandbox, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w"):
        result = open_sandbox().execute(
            "import os\nlinks = []\nfor n in os.listdir('/proc/self/fd'):\n"
            "    try: links.append(os.readlink('/proc/self/fd/' + n))\n    except OSError: pass\n"
            "[link for link in links if not link.startswith(('socket:', 'pipe:', '/dev/null', '/proc/'))]"
        )
        assert result.value == "[]"
