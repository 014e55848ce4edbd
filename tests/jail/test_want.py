"""What a jail's own processes lack for one request is that request's trouble: the other sessions live on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

SCRIPT = """
import contextlib, json, resource
import cloche

most = {most}
resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
policy = cloche.ExecutionPolicy(preload=())
open_session = lambda: cloche.create_sandbox(backend="jail", policy=policy)
with contextlib.ExitStack() as sessions:
    made, refused = [], None
    for _ in range(most):
        session = open_session()
        try:
            session.execute("kept = 41").check()
        except cloche.ClocheError as exc:
            refused = str(exc)
            session.destroy()
            break
        made.append(sessions.enter_context(session))
    kept = [session.execute("kept + 1").value for session in made]
    for session in made[1:]:
        session.destroy()
    with open_session() as later:
        print(json.dumps([refused, kept, later.execute("1 + 1").value]))
"""

BECOME = """
import os, sys
user = int(sys.argv[1])
os.setgroups([])
os.setresgid(user, user, user)
os.setresuid(user, user, user)
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.parametrize("most", [24, 25])  # one is reached by a seat, the other by a worker
def test_a_jail_without_room_for_processes_refuses_one_session_and_ends_no_other(
    most: int, as_user: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    # processes are counted by user: that of the other tests may have some at this moment
    done = as_user(SCRIPT.replace("{most}", str(most)), sys.executable, "-c", BECOME, str(1_900_000_000 + os.getpid()))
    assert done.returncode == 0, done.stderr
    refused, kept, later = json.loads(done.stdout)
    assert refused is not None
    assert len(kept) > 1
    assert set(kept) == {"42"}
    assert later == "2"
