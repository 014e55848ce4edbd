"""What sessions find imported, where it comes from, and how it is renewed."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from tests.guest.every_python import FOUND, find
from tests.jail.sessions import Environment, jail, value

from cloche.backends.interpreter import examine
from cloche.backends.jail import broker as brokers
from cloche.backends.jail import houses as housing
from cloche.backends.jail.houses import House, houses
from cloche.cli.doctor import examine as diagnose
from cloche.conformance.waiting import wait_until
from cloche.session.processes import process_start

LOADED = "import sys\nsorted({'first', 'second', 'third'} & set(sys.modules))"
ENDS = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
HANGS = "import time\nwhile True: time.sleep(1)"
LEAVES_A_THREAD = "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv")


def warm(environment: Environment, *preload: str) -> House:
    return houses.warm(examine(environment.python, "jail"), preload)


def zygote_of(pid: int | None) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().split("PPid:")[1].split()[0])


def test_a_session_finds_what_the_policy_names_imported(environment: Environment) -> None:
    environment.install("first", "")
    environment.install("second", "")
    warm(environment, "first")
    with jail(python=environment.python, preload=("first",)) as sandbox:
        assert value(sandbox, LOADED) == "['first']"


def test_a_bare_set_has_nothing_imported(environment: Environment) -> None:
    environment.install("first", "")
    for _ in range(2):
        with jail(python=environment.python, preload=()) as sandbox:
            assert value(sandbox, LOADED) == "[]"
            assert value(sandbox, "import first\nfirst.__name__") == "'first'"


def test_the_default_set_is_the_scientific_stack() -> None:
    pytest.importorskip("numpy")
    house = houses.warm(examine(None, "jail"), housing.SCIENTIFIC)
    assert {name for name, why in house.left_out.items() if why != "not installed"} == set()
    assert "numpy" not in house.left_out
    with jail() as sandbox:
        drawn = sandbox.execute(
            "import sys, os, numpy\nloaded = 'matplotlib.pyplot' in sys.modules\n"
            "numpy.ones((300, 300)) @ numpy.ones((300, 300))\nimport matplotlib\n"
            "matplotlib.get_backend().lower() if loaded else 'agg', len(os.listdir('/proc/self/task'))"
        )
    assert drawn.check().value == "('agg', 1)"


def test_what_is_absent_or_broken_is_left_out_and_told(
    environment: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    environment.install("first", "")
    environment.install("second", "raise RuntimeError('half installed')")
    with caplog.at_level(logging.WARNING, "cloche"):
        house = warm(environment, "first", "second", "third")
    assert house.left_out == {"second": "RuntimeError: half installed", "third": "not installed"}
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    with jail(python=environment.python, preload=("first", "second", "third")) as sandbox:
        assert value(sandbox, LOADED) == "['first']"


@pytest.mark.parametrize(
    ("source", "why"),
    [(ENDS, "the jail's init ended"), (HANGS, "its import does not return"),
     (LEAVES_A_THREAD, "it leaves 1 threads running")],
    ids=["ends the process", "never returns", "leaves a thread"],
)  # fmt: skip
def test_a_module_that_no_zygote_survives_is_left_out(
    environment: Environment, source: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers, "IMPORT_PATIENCE", 0.5 if source is HANGS else brokers.IMPORT_PATIENCE)
    environment.install("first", "")
    environment.install("second", source)
    environment.install("third", "")
    assert warm(environment, "first", "second", "third").left_out == {"second": why}
    with jail(python=environment.python, preload=("first", "second", "third")) as sandbox:
        assert value(sandbox, LOADED) == "['first', 'third']"


def test_doctor_tells_what_is_broken(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    environment.install("first", "")
    environment.install("second", "import third.part")
    monkeypatch.setenv("CLOCHE_PRELOAD", "first, second,nowhere")
    details = diagnose(str(environment.python), preload=True)["backends"]["jail"]["details"]
    assert details["preloaded"] == "first"
    assert details["not installed"] == "nowhere"
    assert details["broken at import"].startswith("second (ModuleNotFoundError")


def test_no_request_waits_for_imports(environment: Environment, tmp_path: Path) -> None:
    gate = environment.packages / "gate"
    environment.install("first", f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)")
    options = {"python": environment.python, "preload": ("first",)}
    for _ in range(4):
        with jail(**options) as sandbox:
            assert value(sandbox, LOADED) == "[]"
    gate.touch()

    def loaded() -> bool:
        with jail(**options) as sandbox:
            return value(sandbox, LOADED) == "['first']"

    wait_until(loaded)


def test_a_package_that_is_installed_later_is_there_and_no_session_is_lost(environment: Environment) -> None:
    environment.install("first", "")
    options = {"python": environment.python, "preload": ("first", "second")}
    warm(environment, "first", "second")
    with jail(**options) as old:
        assert value(old, "mine = 1\n" + LOADED) == "['first']"
        zygote = zygote_of(old.guest_pid)
        environment.install("second", "")

        def renewed() -> bool:
            with jail(**options) as sandbox:
                seen = value(sandbox, LOADED)
            assert seen in ("['first']", "['first', 'second']")  # never a cold one in between
            return seen == "['first', 'second']"

        wait_until(renewed)
        assert value(old, "mine") == "1"
        assert process_start(zygote) is not None
    wait_until(lambda: process_start(zygote) is None)


def test_a_crashed_session_of_a_retired_zygote_starts_again(environment: Environment) -> None:
    environment.install("first", "")
    with jail(python=environment.python, preload=()) as sandbox:
        sandbox.put_file("kept", b"x")
        zygote = zygote_of(sandbox.guest_pid)
        environment.install("second", "")

        def renewed() -> bool:
            with jail(python=environment.python, preload=()) as other:
                other.execute("1").check()
                return zygote_of(other.guest_pid) != zygote

        wait_until(renewed)
        assert sandbox.execute("import os\nos._exit(3)").session_state == "reset"
        assert value(sandbox, "open('kept').read()") == "'x'"


def test_a_zygote_is_replaced_after_so_many_sessions_and_the_hash_seed_with_it(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housing, "SESSIONS", 4)
    seeds: dict[int, set[str | None]] = {}

    def renewed_twice() -> bool:
        with jail(python=environment.python, preload=()) as sandbox:
            seed = value(sandbox, "hash('a text')")
            seeds.setdefault(zygote_of(sandbox.guest_pid), set()).add(seed)
        return len(seeds) >= 3

    wait_until(renewed_twice)
    assert all(len(each) == 1 for each in seeds.values())
    assert len({seed for each in seeds.values() for seed in each}) == len(seeds)


@pytest.mark.parametrize("version", FOUND)
def test_random_numbers_differ_between_sessions_of_every_interpreter(version: str) -> None:
    python = find(version)
    houses.warm(examine(python, "jail"), ("random",))
    drawn = set()
    for _ in range(3):
        with jail(python=python, preload=("random",)) as sandbox:
            drawn.add(value(sandbox, "import random\nrandom.random()"))
    assert len(drawn) == 3


def test_sessions_of_a_set_do_not_get_those_of_another(environment: Environment) -> None:
    environment.install("first", "")
    environment.install("second", "")
    for name in ("first", "second"):
        warm(environment, name)
    for name in ("first", "second") * 2:
        with jail(python=environment.python, preload=(name,)) as sandbox:
            assert value(sandbox, LOADED) == f"['{name}']"


def test_a_forked_child_has_a_jail_of_its_own(environment: Environment) -> None:
    environment.install("first", "")
    warm(environment, "first")
    with jail(python=environment.python, preload=("first",)) as sandbox:
        sandbox.execute("mine = 1").check()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                with jail(python=environment.python, preload=("first",)) as other:
                    code = 0 if value(other, "1 + 1") == "2" else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert value(sandbox, "mine") == "1"


def test_what_modules_kept_of_the_machine_is_forgotten(environment: Environment) -> None:
    code = (
        "import platform, tempfile, uuid\nplatform.node(), platform.platform(), tempfile.gettempdir(), uuid.getnode()"
    )
    environment.install("first", code)
    warm(environment, "first")
    with jail(python=environment.python, preload=("first",)) as sandbox:
        assert value(sandbox, "import first, os, platform\nplatform.node() == os.uname().nodename") == "True"
        assert os.uname().nodename not in (value(sandbox, "platform.uname()") or "")
        assert value(sandbox, "import tempfile\ntempfile.tempdir") is None


def test_the_owners_of_files_have_names(environment: Environment) -> None:
    with jail() as sandbox:
        names = "import grp, pwd\n[pwd.getpwuid(n).pw_name for n in (0, 1000, 65534)], grp.getgrgid(65534).gr_name"
        assert value(sandbox, names) == "(['root', 'user', 'nobody'], 'nogroup')"
        assert value(sandbox, "from pathlib import Path\nbool(Path('/usr').owner())") == "True"
