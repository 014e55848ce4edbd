"""Making sandboxes: what auto takes, what is refused, and what a third party can add."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

import cloche
from cloche import (
    Availability,
    Backend,
    BackendUnavailableError,
    Isolation,
    IsolationError,
    JailSandbox,
    NativePythonSandbox,
    UnknownBackendError,
    UnsupportedError,
    create_async_sandbox,
    create_sandbox,
    factory,
)


@pytest.fixture(autouse=True)
def nothing_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CLOCHE_BACKEND", "CLOCHE_CONFIG", "CLOCHE_MINIMUM_ISOLATION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


JAIL = pytest.mark.skipif(not factory.probe_backends()["jail"].available, reason="the jail cannot run here")
MAKERS = pytest.mark.parametrize("make", [create_sandbox, create_async_sandbox])


def test_auto_takes_a_backend_that_runs_here_and_is_a_boundary():
    with create_sandbox() as sandbox:
        assert isinstance(sandbox, NativePythonSandbox)
        result = sandbox.execute("6 * 7")
        assert result.value == "42"
        assert result.isolation >= Isolation.CONFINED


@JAIL
def test_on_linux_auto_is_the_jail():
    with create_sandbox() as sandbox:
        assert type(sandbox) is JailSandbox
    assert create_async_sandbox().backend == "jail"


@pytest.fixture
def only_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No wall of another kind is installed."""
    known = factory._builtin_backends()
    monkeypatch.setattr(factory, "_builtin_backends", lambda: {name: known[name] for name in ("jail", "native")})


@MAKERS
def test_where_there_is_no_boundary_auto_refuses_and_says_what_to_type(make, monkeypatch, only_processes):
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", "seccomp")
    monkeypatch.setenv("CLOCHE_DENO", "/nonexistent")
    with pytest.raises(IsolationError, match=r"jail: .*; native: gives PROCESS, CONFINED is demanded") as caught:
        make()
    assert "minimum_isolation='process'" in str(caught.value.remedy)
    assert "CLOCHE_MASK_LAYERS" in str(caught.value.remedy)


def test_auto_runs_without_a_boundary_when_that_is_asked_for(monkeypatch, only_processes):
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", "seccomp")
    with create_sandbox(minimum_isolation="process") as sandbox:
        assert type(sandbox) is NativePythonSandbox
        assert sandbox.execute("1").isolation is Isolation.PROCESS


@JAIL
def test_auto_takes_a_better_wall_than_is_asked_for():
    with create_sandbox(minimum_isolation="process") as sandbox:
        assert type(sandbox) is JailSandbox


def test_a_demand_that_only_a_weaker_backend_can_honour_is_refused(only_processes):
    with pytest.raises(IsolationError, match=r"jail: cannot honour policy\.network; native: gives PROCESS") as caught:
        create_sandbox(network=True)
    assert "minimum_isolation='process'" in str(caught.value.remedy)
    assert create_sandbox(network=True, minimum_isolation="process").backend == "native"


@JAIL
@pytest.mark.parametrize("demand", [{"network": False}, {"protect_state": True}])
def test_auto_takes_the_jail_for_what_native_cannot_honour(demand):
    assert create_sandbox(minimum_isolation="process", **demand).backend == "jail"


def test_native_by_name_is_its_own_class():
    assert type(create_sandbox(backend="native")) is NativePythonSandbox
    assert create_async_sandbox(backend="native").backend == "native"


@MAKERS
def test_an_unknown_backend_is_refused_and_the_known_ones_are_named(make):
    with pytest.raises(UnknownBackendError, match="'nativ'") as caught:
        make(backend="nativ")
    assert caught.value.remedy is not None
    for name in ("auto", *cloche.backend_names()):
        assert name in caught.value.remedy


@MAKERS
def test_a_wall_that_cannot_be_had_is_refused_before_anything_runs(make, monkeypatch, only_processes):
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", "cgroup")
    with pytest.raises(IsolationError, match="METERED is demanded") as caught:
        make(minimum_isolation=Isolation.METERED)
    assert "doctor" in (caught.value.remedy or "")


def test_a_backend_by_name_below_the_demanded_wall_refuses_to_start():
    with create_sandbox(backend="native", minimum_isolation="sealed") as sandbox:
        with pytest.raises(IsolationError, match="native gives PROCESS; the policy demands SEALED"):
            sandbox.execute("1")
        with pytest.raises(IsolationError):
            sandbox.initialize("context")


@pytest.mark.parametrize(
    ("demand", "capability"),
    [({"fuel_budget": 1000}, "fuel_budget"), ({"deterministic": True}, "deterministic"),
     ({"network": False}, "network"), ({"protect_state": True}, "protect_state")],
)  # fmt: skip
@MAKERS
def test_a_demand_that_a_backend_cannot_honour_is_refused_and_not_ignored(make, demand, capability):
    with pytest.raises(UnsupportedError, match=f"cannot honour policy.{capability}") as caught:
        make(backend="native", **demand)
    assert caught.value.capability == capability


@pytest.mark.parametrize("demand", [{"fuel_budget": 1000}, {"deterministic": True}])
@MAKERS
def test_auto_refuses_a_demand_that_nothing_can_honour(make, demand, only_processes):
    with pytest.raises(BackendUnavailableError, match=next(iter(demand))):
        make(**demand)


def test_asking_for_the_network_is_no_trouble_where_there_is_one():
    with create_sandbox(backend="native", network=True) as sandbox:
        assert "network_access" in sandbox.capabilities


def test_every_backend_says_whether_it_can_run_and_why_not():
    for name, availability in factory.probe_backends().items():
        started = time.perf_counter()
        factory.find_backend(name).probe()
        print(f"{name}: probed in {(time.perf_counter() - started) * 1000:.1f} ms")
        assert availability.available or (availability.reason and availability.remedy), name


def test_an_interpreter_that_is_not_there_makes_native_unavailable():
    with pytest.raises(BackendUnavailableError, match="/nonexistent"):
        create_sandbox(python="/nonexistent/python")
    with (
        create_sandbox(backend="native", python="/nonexistent/python") as sandbox,
        pytest.raises(BackendUnavailableError),
    ):
        sandbox.execute("1")


def test_nothing_is_started_before_the_first_use(tmp_path, monkeypatch):
    monkeypatch.setenv("CLOCHE_SESSIONS_DIR", str(tmp_path / "sessions"))
    sandbox = create_sandbox(backend="native")
    assert not (tmp_path / "sessions").exists() or os.listdir(tmp_path / "sessions") == []
    assert sandbox.isolation is Isolation.PROCESS
    sandbox.destroy()
    assert not (tmp_path / "sessions").exists() or os.listdir(tmp_path / "sessions") == []


def test_none_may_be_passed_for_what_is_optional():
    with create_sandbox(
        None, backend="native", workspace=None, logger=None, on_llm_query=None, tools=None, python=None
    ) as sandbox:
        assert sandbox.execute("6 * 7").value == "42"


@pytest.mark.parametrize("bad", [{"tools": {"context": print}}, {"tools": {"not a name": print}}, {"tools": {"f": 5}}])
@MAKERS
def test_bad_tools_are_refused_at_once(make, bad):
    with pytest.raises(cloche.PolicyError) as caught:
        make(backend="native", **bad)
    assert caught.value.field == "tools"


# -- cloche.run --------------------------------------------------------------------------------


def test_run_is_one_cell_in_a_fresh_session():
    heard: list[str] = []
    result = cloche.run(
        "print(context)\nshout(context)",
        backend="native",
        context="hello",
        tools={"shout": str.upper},
        on_output=lambda stream, text: heard.append(text),
    )
    assert (result.stdout, result.value, heard) == ("hello\n", "'HELLO'", ["hello\n"])
    assert cloche.run("'context' in globals()", backend="native").value == "False"


def test_run_takes_a_context_that_is_empty_for_one():
    assert cloche.run("context", backend="native", context="").value == "''"
    assert cloche.run("context", backend="native", context=0).value == "0"


# -- a backend of somebody else ----------------------------------------------------------------

THIRD_PARTY = '''
from cloche import Availability, Backend, Isolation
from cloche.backends.native import NativeBackend


class LunarBackend(Backend):
    """Runs on the moon, which is this machine."""

    name = "lunar"
    capabilities = frozenset({"tides"})
    options = ("crater",)

    def __init__(self, *, crater="Tycho"):
        self.crater = crater
        self._native = NativeBackend()

    @classmethod
    def probe(cls, **options):
        return Availability(True, isolation=Isolation.PROCESS)

    def open(self, policy, workspace, timeout):
        return self._native.open(policy, workspace, timeout)
'''

USE = """
import cloche
print(cloche.backend_names())
with cloche.create_sandbox(backend="lunar", crater="Copernicus") as sandbox:
    print(type(sandbox).__name__, sandbox.backend, sorted(sandbox.capabilities), sandbox._backend.crater)
    print(sandbox.execute("6 * 7").value)
try:
    cloche.create_sandbox(backend="lunar", craters=1)
except TypeError as exc:
    print(exc)
import asyncio
async def main():
    async with cloche.create_async_sandbox(backend="lunar") as sandbox:
        print((await sandbox.execute("6 * 7")).value)
asyncio.run(main())
"""


def distribution(root: Path, entry: str, code: str | None = THIRD_PARTY) -> Path:
    """A folder that looks like an installed package which registers a backend."""
    info = root / "lunar-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lunar\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[cloche.backends]\n{entry}\n")
    if code is not None:
        (root / "lunar.py").write_text(code)
    return root


def test_an_installed_package_can_add_a_backend(tmp_path):
    site = distribution(tmp_path / "site", "lunar = lunar:LunarBackend")
    done = subprocess.run(
        [sys.executable, "-c", USE], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(site)}
    )
    assert done.stderr == ""
    assert done.stdout == textwrap.dedent("""\
        ['daemon', 'fake', 'inprocess', 'jail', 'lunar', 'native', 'pyodide', 'wasm']
        LunarSandbox lunar ['tides'] Copernicus
        42
        unknown option of the lunar backend 'craters'; did you mean 'crater'?
        42
        """)


@pytest.mark.parametrize(("entry", "code"), [("lunar = nosuchmodule:X", None), ("lunar = lunar:Missing", "")])
def test_a_backend_that_cannot_be_imported_does_not_spoil_the_others(tmp_path, entry, code):
    site = distribution(tmp_path / "site", entry, code)
    script = (
        "import cloche\nfrom cloche.factory import probe_backends\nfound = probe_backends()\n"
        "print(found['lunar'].available, found['native'].available, bool(found['lunar'].remedy))\n"
        "print(cloche.run('6 * 7').value)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(site)}
    )
    assert (done.stdout, done.stderr) == ("False True True\n42\n", "")


def test_a_package_cannot_take_the_name_of_a_backend_of_ours(tmp_path):
    site = distribution(tmp_path / "site", "native = lunar:LunarBackend")
    script = "import cloche\nprint(type(cloche.create_sandbox(backend='native')).__name__)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(site)}
    )
    assert done.stdout == "NativePythonSandbox\n"


class Broken(Backend):
    """Opens nothing."""

    name: ClassVar[str] = "broken"

    @classmethod
    def probe(cls, **options: Any) -> Availability:
        return Availability(False, "it is broken", "mend it")

    def open(self, policy: Any, workspace: Any, timeout: float) -> Any:
        raise cloche.StartError("it is broken")


def test_a_backend_that_fails_to_open_gives_its_own_error_each_time(monkeypatch):
    monkeypatch.setattr(factory, "find_backend", lambda name: Broken)
    with create_sandbox(backend="broken") as sandbox:
        for _ in range(2):
            with pytest.raises(cloche.StartError, match="it is broken"):
                sandbox.execute("1")
        assert sandbox.isolation is Isolation.NONE
