"""The native backend: a spawned CPython, any version from 3.8, with the operating system's ordinary limits.

It keeps hangs, crashes, leaks of variables and of the host's environment away. It is no boundary against code that
means harm: the guest has the user's files and network.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, ClassVar

from cloche.backends.interpreter import Interpreter, examine, locate, version_of
from cloche.backends.lifeline import lifeline
from cloche.errors import BackendUnavailableError, StartError
from cloche.guarantees import LAYERS
from cloche.isolation import Isolation, Layer, masked_layers
from cloche.session.channel import Availability, Backend, Channel, Exit
from cloche.session.processes import cpu_seconds

if TYPE_CHECKING:
    import socket
    import subprocess
    from collections.abc import Mapping

    from cloche.policy import ExecutionPolicy
    from cloche.session.workspace import Workspace

SOCKET_BUFFER = 1 << 20
PIPE_SIZE = 1 << 20
_F_SETPIPE_SZ = 1031
_INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")


def native_layers() -> tuple[Layer, ...]:
    """The layers of this wall on this machine."""
    masked = masked_layers()
    linux = sys.platform == "linux"
    try:
        import resource
    except ImportError:
        limits = False
    else:
        limits = hasattr(resource, "RLIMIT_DATA")
    says = LAYERS["native"]
    layers = (
        Layer("process", True, says["process"]),
        Layer("environment", True, says["environment"]),
        Layer("lifeline", linux, says["lifeline"], "use Linux"),
        Layer("rlimits", limits, says["rlimits"], "use Linux or macOS"),
    )
    return tuple(
        Layer(layer.name, False, layer.purpose, "unset CLOCHE_MASK_LAYERS") if layer.name in masked else layer
        for layer in layers
    )


class NativeChannel(Channel):
    """One spawned interpreter."""

    isolation = Isolation.PROCESS

    def __init__(
        self, process: subprocess.Popen[bytes], wire: socket.socket, out: int | None, err: int, workspace: Workspace,
        layers: tuple[str, ...], greeting: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self._process = process
        self._exit: Exit | None = None
        self._exit_fd: int | None = None
        self._owner = os.getpid()
        self._closed = False
        self.wire = wire
        self.stdout = out
        self.stderr = err
        self.workspace = workspace
        self.layers = layers
        self.greeting = greeting

    @property
    def pid(self) -> int:
        """The guest's process."""
        return self._process.pid

    def interrupt(self, *, insist: bool) -> None:
        self._signal(signal.SIGUSR2 if insist else signal.SIGINT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        if self._exit is None:
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._exit is None and self._owner == os.getpid():
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)  # not yet reaped, so the number is still its own

    def watch_exit(self) -> int | None:
        if self._exit_fd is None and self._exit is None and hasattr(os, "pidfd_open"):
            with suppress(OSError):
                self._exit_fd = os.pidfd_open(self._process.pid)
        return self._exit_fd

    def reap(self, timeout: float) -> Exit | None:
        if self._exit is not None:
            return self._exit
        if timeout > 0:
            self._wait(timeout)
        # the group must go before the leader is reaped: until then its number cannot be another's
        try:
            status = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # SIGCHLD is ignored here, or somebody waits for all children
            self._process.returncode = 0
            self._exit = Exit()
            return self._exit
        if status is None:
            return None
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        self._exit = Exit(signal=-code) if code < 0 else Exit(code=code)
        return self._exit

    def _wait(self, timeout: float) -> None:
        descriptor = self.watch_exit()
        if descriptor is not None:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            poll.poll(timeout * 1000)
            return
        end = time.monotonic() + timeout
        with suppress(ChildProcessError):  # gone already, and taken by somebody else: `reap` deals with that
            while time.monotonic() < end:
                if os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                    return
                time.sleep(0.002)

    def cpu_seconds(self) -> float | None:
        return cpu_seconds(self._process.pid)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._owner == os.getpid():
            self.kill()
            self.reap(5.0)
        else:
            self._process.returncode = 0  # the parent's child, not ours: never waited for here
        self.wire.close()
        for descriptor in (self.stdout, self.stderr, self._exit_fd):
            if descriptor is not None:
                with suppress(OSError):
                    os.close(descriptor)


class NativeBackend(Backend):
    """Starts `python` (default: the interpreter of this process)."""

    name: ClassVar[str] = "native"
    capabilities: ClassVar[frozenset[str]] = frozenset(
        {"network_access", "threads", "subprocess", "site_packages", "links", "byte_names"}
    )
    options: ClassVar[tuple[str, ...]] = ("python",)
    channel_type: ClassVar[type[NativeChannel]] = NativeChannel
    flavour = "guest"
    """Which guest it starts."""

    def __init__(self, *, python: str | os.PathLike[str] | None = None) -> None:
        self._python = python

    @classmethod
    def probe(cls, *, python: str | os.PathLike[str] | None = None, **_: Any) -> Availability:
        if sys.platform == "win32":
            return Availability(False, "needs a POSIX system", "use Linux or macOS, or WSL")
        try:
            executable = locate(python)
            version = sys.version_info[:3] if executable == sys.executable else version_of(executable)
        except BackendUnavailableError as exc:
            return Availability(False, exc.message, exc.remedy or "")
        details = {"python": executable, "version": ".".join(map(str, version))}
        return Availability(True, isolation=Isolation.PROCESS, layers=native_layers(), details=details)

    def expected_isolation(self) -> Isolation:
        return Isolation.PROCESS

    def open(self, policy: ExecutionPolicy, workspace: Workspace, timeout: float) -> NativeChannel:
        interpreter = examine(self._python, self.flavour)
        layers = tuple(layer.name for layer in native_layers() if layer.active)
        greeting = _greeting(interpreter, policy, limits="rlimits" in layers)
        try:
            with ExitStack() as ours:
                wire, out, err, process = self._spawn(interpreter, policy, workspace, layers, ours)
                ours.pop_all()
        except OSError as exc:
            raise StartError(f"{interpreter.executable} could not be started", cause=str(exc)) from None
        wire.setblocking(False)
        return self.channel_type(process, wire, out, err, workspace, layers, greeting)

    @staticmethod
    def _spawn(
        interpreter: Interpreter,
        policy: ExecutionPolicy,
        workspace: Workspace,
        layers: tuple[str, ...],
        ours: ExitStack,
    ) -> tuple[socket.socket, int, int, subprocess.Popen[bytes]]:
        """(wire, stdout, stderr, process). Our ends are closed by `ours`, the guest's ends here."""
        import socket  # other walls, which share much of this module, do without, or can wait
        import subprocess

        with ExitStack() as theirs:
            wire, far = socket.socketpair()
            ours.enter_context(wire)
            theirs.enter_context(far)
            pipes = []
            for _ in ("stdout", "stderr"):
                pipes.append(capture_pipe())
                ours.callback(os.close, pipes[-1][0])
                theirs.callback(os.close, pipes[-1][1])
            (out_read, out_write), (err_read, err_write) = pipes
            passed = [out_write, err_write]
            command = [*interpreter.command(), "--capture", f"{out_write},{err_write}"]
            if "lifeline" in layers:
                passed.append(lifeline.reader())
                theirs.callback(os.close, passed[-1])
                command += ["--lifeline", str(passed[-1])]
            for end in (wire, far):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
            process = subprocess.Popen(
                command, stdin=far.fileno(), stdout=far.fileno(), stderr=err_write,
                pass_fds=passed, process_group=0,
                cwd=workspace.root, env=guest_environment(policy, workspace),
            )  # fmt: skip
        return wire, out_read, err_read, process


def guest_environment(policy: ExecutionPolicy, workspace: Workspace) -> dict[str, str]:
    """What the guest sees of the environment: a short allow-list, places of its own, and what the policy gives."""
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environment.setdefault("LANG", "C.UTF-8")
    environment.update(workspace.places())
    environment["MPLBACKEND"] = "Agg"
    # page faults, not copying, are the cost of a large context
    environment["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
    environment.update(policy.environment)
    return environment


def _greeting(interpreter: Interpreter, policy: ExecutionPolicy, *, limits: bool) -> dict[str, Any]:
    bounds: dict[str, Any] = {"core": 0}
    if limits:
        bounds |= {"data": policy.memory_bytes, "fsize": policy.workspace_bytes, "nofile": policy.open_files}
    return {
        "path": list(interpreter.path),
        "prefix": interpreter.prefix,
        "exec_prefix": interpreter.exec_prefix,
        "limits": bounds,
    }


def capture_pipe() -> tuple[int, int]:
    """(where we read without waiting, where a guest writes much before it has to wait)."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with suppress(OSError, AttributeError):  # over the user's quota of pipe pages, or not Linux: slower, nothing else
        fcntl.fcntl(writer, _F_SETPIPE_SZ, PIPE_SIZE)
    return reader, writer
