"""Packages for guests: found and fetched by the host's pip, made one archive, unpacked inside.

Wheels that are pure Python serve everywhere; compiled ones must be built for this very Pyodide. The package index has
few of those. The rest, numpy and pandas among them, are published with Pyodide itself and not there.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloche.backends.pyodide.release import PLATFORM, PYTHON, VERSION
from cloche.errors import BackendUnavailableError, PolicyError
from cloche.paths import private_folder

if TYPE_CHECKING:
    from cloche.backends.pyodide.runtime import Runtime

FETCH_TIMEOUT = 300.0
FRESH = 7 * 86_400.0
"""Seconds for which what was found for a list of packages is taken again without asking."""
_ABSENT = re.compile(r"No matching distribution found for ([A-Za-z0-9._-]+)")
_DATA = re.compile(r"[^/]+\.data/(?P<kind>purelib|platlib)/(?P<path>.+)")
_OTHER_DATA = re.compile(r"[^/]+\.data/")


def provide(runtime: Runtime, requirements: tuple[str, ...]) -> Path:
    """An archive of what these need, to be unpacked into the guest's site-packages."""
    requirements = tuple(map(_placed, requirements))
    folder = private_folder(runtime.folder.parent / "packages")
    archive = folder / f"{_key(requirements)}.zip"
    if not archive.is_file() or time.time() - archive.stat().st_mtime > FRESH:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as scratch:
            _fetch(runtime, requirements, Path(scratch))
            fresh = Path(scratch, "archive")
            _join(sorted(Path(scratch).glob("*.whl")), fresh)
            fresh.replace(archive)
    return archive


def _key(requirements: tuple[str, ...]) -> str:
    """A wheel that is given by path may change in place."""
    marks = [f"{path.stat().st_mtime_ns}" for text in requirements if (path := Path(text)).is_file()]
    return hashlib.sha256("\0".join([VERSION, *requirements, *marks]).encode()).hexdigest()[:16]


def _fetch(runtime: Runtime, requirements: tuple[str, ...], target: Path) -> None:
    if importlib.util.find_spec("pip") is None:
        raise BackendUnavailableError(
            "the packages of policy.packages are fetched with pip, which is not installed here",
            remedy=f"{sys.executable} -m ensurepip",
        )
    command = [
        sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check",
        "--only-binary", ":all:", "--platform", PLATFORM, "--implementation", "cp", "--python-version", PYTHON,
        "--abi", f"cp{PYTHON}", "--abi", "abi3", "--abi", "none", "--dest", str(target), "--", *requirements,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_TIMEOUT, check=False,
            cwd=target,  # of our own: what lies in the caller's folder is neither run nor obeyed
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BackendUnavailableError(f"pip did not answer within {FETCH_TIMEOUT:.0f} s") from None
    if done.returncode:
        raise _explain(runtime, done.stderr)


def _placed(requirement: str) -> str:
    """A wheel that is given by its path, by one that leads there from any folder. A name stays one, whatever files of
    that name there are."""
    by_path = os.sep in requirement or requirement.endswith(".whl")
    return os.path.abspath(requirement) if by_path and os.path.isfile(requirement) else requirement


def _explain(runtime: Runtime, said: str) -> Exception:
    """What pip's refusal means here."""
    told = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR")] or [said.strip()]
    absent = _ABSENT.search(said)
    if absent is None:
        return BackendUnavailableError(
            "the packages of policy.packages could not be fetched",
            cause=" ".join(told)[-300:],
            remedy="see that pip can reach the package index from here",
        )
    name = absent[1]
    built = _built_with_pyodide(runtime, name)
    if built is None:
        remedy = "use a package in pure Python, the wheel itself (packages=['path/to/it.whl']), or the jail"
        cause = "it is compiled, and nobody has published a wheel for Pyodide; or the index cannot be reached"
    else:
        cause = f"its wheel is published with Pyodide {VERSION} and not on the package index"
        remedy = (
            f"take {built['file_name']} (SHA-256 {built['sha256']}) from Pyodide's own release and give its path in "
            "packages, or use the jail, which has the packages of this interpreter"
        )
    return PolicyError(f"{name} cannot be had for pyodide", field="packages", cause=cause, remedy=remedy)


def _built_with_pyodide(runtime: Runtime, name: str) -> dict[str, Any] | None:
    """What Pyodide's own list says of a package."""
    known: dict[str, Any] = json.loads((runtime.folder / "pyodide-lock.json").read_text("utf-8"))["packages"]
    plain = re.sub(r"[-_.]+", "-", name).lower()
    return next((each for key, each in known.items() if re.sub(r"[-_.]+", "-", key).lower() == plain), None)


def _join(wheels: list[Path], archive: Path) -> None:
    """One archive with the contents of all, not compressed: the guest is slow at that."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as joined:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as opened:
                for entry in opened.infolist():
                    path = _installed_path(entry.filename)
                    if path is not None and not entry.is_dir():
                        joined.writestr(zipfile.ZipInfo(path), opened.read(entry))
    os.chmod(archive, 0o600)


def _installed_path(name: str) -> str | None:
    """Where an entry of a wheel goes; None for what is not for site-packages."""
    data = _DATA.fullmatch(name)
    if data is not None:
        return data["path"]
    return None if _OTHER_DATA.match(name) else name
