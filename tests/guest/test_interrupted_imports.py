"""An interrupt that falls into an import must not leave half a package behind."""

from __future__ import annotations

import pytest

import cloche

SLOW_PACKAGE = {
    "slowpack/__init__.py": "from .first import *\nfrom .second import *\n__all__ = first.__all__ + second.__all__\n",
    "slowpack/first.py": "__all__ = ['one']\none = 1\n",
    "slowpack/second.py": "import time\nend = time.monotonic() + 0.6\nwhile time.monotonic() < end:\n    pass\n"
    "__all__ = ['two']\ntwo = 2\n",
}


@pytest.fixture
def library(tmp_path: object) -> str:
    import pathlib

    root = pathlib.Path(str(tmp_path)) / "library"
    for name, text in SLOW_PACKAGE.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(root)


def test_a_library_whose_import_met_the_deadline_can_be_imported_again(library: str) -> None:
    with cloche.create_sandbox(backend="native") as sandbox:
        sandbox.execute(f"import sys; sys.path.append({library!r}); keep = 1").check()
        cut = sandbox.execute("import slowpack", timeout_ms=300)
        assert (cut.outcome, cut.session_state) == ("timeout", "kept")
        assert sandbox.execute("import slowpack\nslowpack.one + slowpack.two + keep").value == "4"


def test_an_import_that_never_ends_is_killed_with_its_session(library: str) -> None:
    import pathlib

    pathlib.Path(library, "endless.py").write_text("while True:\n    pass\n")
    with cloche.create_sandbox(backend="native", grace_ms=300) as sandbox:
        sandbox.execute(f"import sys; sys.path.append({library!r})").check()
        result = sandbox.execute("import endless", timeout_ms=300)
        assert (result.outcome, result.session_state) == ("timeout", "reset")


def test_a_module_of_the_users_own_is_interrupted_at_once() -> None:
    with cloche.create_sandbox(backend="native") as sandbox:
        sandbox.put_file("mine.py", "while True:\n    pass\n")
        sandbox.execute("keep = 1").check()
        result = sandbox.execute("import mine", timeout_ms=300)
        assert (result.outcome, result.session_state) == ("timeout", "kept")
        assert sandbox.get_variable("keep") == 1
