"""The guest's own code cannot be seen from a cell by looking where users look."""

from __future__ import annotations

import pytest
from tests.guest.sessions import executable, sandbox

from cloche import NativePythonSandbox

__all__ = ["executable", "sandbox"]


@pytest.fixture
def bare(executable: str) -> str:
    """An interpreter that does not have cloche installed."""
    import subprocess

    if subprocess.run([executable, "-I", "-c", "import cloche_guest"], capture_output=True).returncode == 0:
        pytest.skip("this interpreter has cloche installed, so it may be imported")
    return executable


@pytest.mark.parametrize("name", ["cloche", "cloche_guest", "cloche_guest.kernel"])
def test_our_packages_cannot_be_imported(bare, sandbox: NativePythonSandbox, name):
    result = sandbox.execute(f"import {name}")
    assert result.exception is not None
    assert result.exception.type == "ModuleNotFoundError"


def test_no_module_and_no_search_path_is_ours(bare, sandbox: NativePythonSandbox):
    result = sandbox.execute(
        "import sys\n[name for name in sys.modules if 'cloche' in name], "
        "[path for path in sys.path if 'cloche' in path.lower() and path != __import__('os').getcwd()]"
    )
    assert result.value == "([], [])"


def test_the_main_module_is_the_users(sandbox: NativePythonSandbox):
    code = "import sys, __main__\n__main__.y = 5\n(y, __name__, hasattr(__main__, '__file__'), sys.argv)"
    assert sandbox.execute(code).value == "(5, '__main__', False, [''])"


def test_the_namespace_shows_only_what_was_promised(sandbox: NativePythonSandbox):
    assert sandbox.list_variables() == {}
    names = sandbox.execute("sorted(name for name in globals() if not name.startswith('__'))").value
    assert names is not None
    assert "Kernel" not in names
    assert "state" not in names


def test_cells_can_be_pickled_and_their_classes_have_a_plain_module(sandbox: NativePythonSandbox):
    code = (
        "import pickle\nclass A:\n    def __init__(self): self.x = 1\npickle.loads(pickle.dumps(A())).x, A.__module__"
    )
    assert sandbox.execute(code).value == "(1, '__main__')"


def test_helpers_do_not_show_where_they_come_from(sandbox: NativePythonSandbox):
    sandbox.initialize("text")
    result = sandbox.execute(
        "import types\nfound = [value for value in globals().values() if isinstance(value, types.FunctionType)]\n"
        "{function.__module__ for function in found}, {function.__code__.co_filename for function in found}"
    )
    assert result.value is not None
    assert result.value.startswith("({'cloche'}, ")
    assert "/" not in result.value


def test_the_search_path_is_that_of_the_interpreter(sandbox: NativePythonSandbox, executable):
    import json
    import subprocess

    asked = subprocess.run(
        [executable, "-I", "-c", "import json, sys; print(json.dumps(sys.path))"], capture_output=True, check=True
    )
    seen = sandbox.execute("import sys\nsys.path").value
    assert seen is not None
    assert [path for path in json.loads(asked.stdout) if repr(path) not in seen] == []


def test_frames_of_the_kernel_have_no_path(sandbox: NativePythonSandbox):
    code = "import sys\nframe, found = sys._getframe(), []\nwhile frame:\n    found.append(frame.f_code.co_filename)"
    value = sandbox.execute(code + "\n    frame = frame.f_back\nfound").value
    assert value is not None
    assert "/" not in value
