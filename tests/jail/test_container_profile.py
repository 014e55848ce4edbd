"""The seccomp profile for containers has all that a start of the jail needs, and nothing more."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.poorer_kernel import run_on

from cloche.backends.jail.container_profile import NEEDED_CALLS, extend_profile
from cloche.cli.group import invoke
from cloche.errors import RequestError

REFUSED_BY_CONTAINERS = frozenset({
    "acct", "add_key", "bpf", "chroot", "clock_settime", "clone3", "create_module", "delete_module",
    "fanotify_init", "finit_module", "fsconfig", "fsmount", "fsopen", "fspick", "get_kernel_syms", "get_mempolicy",
    "init_module", "ioperm", "iopl", "kcmp", "kexec_file_load", "kexec_load", "keyctl", "lookup_dcookie", "mbind",
    "mount", "mount_setattr", "move_mount", "move_pages", "nfsservctl", "open_by_handle_at", "open_tree",
    "perf_event_open", "pidfd_getfd", "pivot_root", "process_madvise", "query_module", "quotactl", "quotactl_fd",
    "reboot", "request_key", "set_mempolicy", "setdomainname", "sethostname", "setns", "settimeofday", "statmount",
    "swapoff", "swapon", "sysfs", "syslog", "umount", "umount2", "unshare", "uselib", "userfaultfd", "ustat",
    "vhangup",
})  # fmt: skip
"""By Docker's profile, for a container without capabilities; beside them `clone` where it makes namespaces."""
WITHOUT_HARM = {"clone3"}
"""Refused as a call that does not exist: the C library then uses another."""
USE = """
import sys, tempfile
sys.path.insert(0, {sources!r})
import cloche
with tempfile.TemporaryDirectory() as given, tempfile.TemporaryDirectory() as folder:
    mounts = [cloche.Mount(given, "/mnt/data")]
    with cloche.create_sandbox(backend="jail", workspace=folder, mounts=mounts, preload=()) as session:
        session.execute("x = 1").check()
with cloche.create_sandbox(backend="jail", protect_state=True, preload=()) as session:
    session.execute("x = 1").check()
    with session.fork() as branch:
        assert branch.execute("x").check().value == "1"
    print(session.execute("import os; os._exit(1)").session_state, session.isolation.name)
"""
SOURCES = str(Path(__file__).resolve().parents[2] / "src")


def test_a_start_of_the_jail_makes_exactly_the_calls_that_the_profile_adds(tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        pytest.skip("no strace here")
    trace = tmp_path / "calls"
    command = ["strace", "-f", "-qq", "-o", str(trace), sys.executable, "-I", "-c", USE.format(sources=SOURCES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "PTRACE" in done.stderr:
        pytest.skip("processes cannot be traced here")
    assert "restored" in done.stdout, done.stderr[-2000:]
    text = trace.read_text(errors="replace")
    made = set(re.findall(r"^\d+ +([a-z_0-9]+)\(", text, re.MULTILINE))
    if re.search(r"\bclone\(.*CLONE_NEW", text):
        made.add("clone with namespaces")
    wanted = {"clone with namespaces" if name == "clone" else name for name in NEEDED_CALLS}
    assert made & (REFUSED_BY_CONTAINERS | {"clone with namespaces"}) - WITHOUT_HARM == wanted


def test_behind_what_the_profile_refuses_the_jail_has_its_namespaces() -> None:
    done = run_on("container-profile", "-c", USE.format(sources=SOURCES))
    assert done.stdout.split()[:1] == ["restored"], done.stderr[-2000:]
    assert done.stdout.split()[1] in ("SEALED", "METERED")


def test_the_doctor_prints_a_profile_with_what_the_jail_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW"}]}
    file = tmp_path / "default.json"
    file.write_text(json.dumps(given))
    assert invoke(["doctor", "--seccomp-profile", str(file)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == extend_profile(given)
    assert printed["syscalls"][0] == given["syscalls"][0]
    assert set(printed["syscalls"][-1]["names"]) == set(NEEDED_CALLS)


@pytest.mark.parametrize("text", ["no json", "[]", "{}", '{"syscalls": 1, "defaultAction": "x"}'])
def test_what_is_no_profile_is_refused_with_the_place_of_one(text: str) -> None:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    with pytest.raises(RequestError) as caught:
        extend_profile(found)
    assert "default.json" in str(caught.value.remedy)
