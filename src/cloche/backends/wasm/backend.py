"""The wasm backend: what it needs of the machine, and how a session is asked for."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cloche.backends.wasm import artefacts, building
from cloche.backends.wasm.channel import WasmChannel
from cloche.backends.wasm.copies import WasmCopy
from cloche.backends.wasm.folders import GuestFolder, resolve
from cloche.backends.wasm.workers import Kind, workers
from cloche.errors import BackendUnavailableError, ClocheError, ValueTransferError
from cloche.guarantees import LAYERS
from cloche.isolation import Isolation, Layer, masked_layers
from cloche.session.channel import Availability, Backend
from cloche.session.machine import FRAME_SLACK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloche.policy import ExecutionPolicy
    from cloche.session.channel import Channel
    from cloche.session.copying import WaitingCopy
    from cloche.session.workspace import Workspace

UNMASK = "unset CLOCHE_MASK_LAYERS"
GUEST_HOME = "/run/cloche"
PACKAGES = "site-packages"
OWN_MEMORY = 32 << 20
"""What the interpreter needs for itself."""
OWN_ROOM = 96 << 20
"""What the process of a session may hold beside the guest's memory: its own things, and those of WASI."""
THREAD_ROOM = 4 << 20
"""For each processor, of which the runtime has a thread."""
FORMS_OF_A_FRAME = 8
"""How often a frame is held while it is carried: as the runtime's text, as bytes, and as text of four bytes a sign."""
LARGEST_MEMORY = (1 << 32) - 65536
"""What a guest of 32 bits can address."""


SEPARABLE = frozenset({"rlimits", "lifeline"})
"""Layers that this wall can be without."""
_known: dict[str | os.PathLike[str] | None, artefacts.Binary] = {}
"""What was found ready in this process, by what was asked for."""


def wasm_layers() -> tuple[Layer, ...]:
    """The layers of this wall on this machine."""
    masked = masked_layers() & SEPARABLE
    says = LAYERS["wasm"]
    layers = (
        Layer("webassembly", True, says["webassembly"]),
        Layer("view", True, says["view"]),
        Layer("network", True, says["network"]),
        Layer("fuel", True, says["fuel"]),
        Layer("memory", True, says["memory"]),
        Layer("process", True, says["process"]),
        Layer("rlimits", True, says["rlimits"]),
        Layer("lifeline", sys.platform == "linux", "the kernel kills the worker when the host dies", "use Linux"),
    )
    return tuple(Layer(layer.name, False, layer.purpose, UNMASK) if layer.name in masked else layer for layer in layers)


class WasmBackend(Backend):
    """Sessions of CPython as a WebAssembly component; or of a binary that is given (`wasm_binary_path`)."""

    name: ClassVar[str] = "wasm"
    capabilities: ClassVar[frozenset[str]] = frozenset({"fuel_budget", "network", "deterministic", "protect_state"})
    options: ClassVar[tuple[str, ...]] = ("wasm_binary_path", "site_packages")

    def __init__(
        self,
        *,
        wasm_binary_path: str | os.PathLike[str] | None = None,
        site_packages: str | os.PathLike[str] | None = None,
    ) -> None:
        self._given = wasm_binary_path
        # Now: it is first used later, and the working directory may have changed by then.
        self._packages = None if site_packages is None else os.path.abspath(site_packages)
        self._folders: tuple[GuestFolder, ...] | None = None
        known = _known.get(wasm_binary_path)
        self._binary = known if known is not None and os.path.exists(known.compiled) else None

    @property
    def wasm_binary_path(self) -> Path:
        """The guest that sessions run; it need not be there yet."""
        return artefacts.component_path() if self._given is None else Path(self._given)

    @classmethod
    def shut_down(cls) -> None:
        workers.close()

    @classmethod
    def probe(cls, *, wasm_binary_path: str | os.PathLike[str] | None = None, **_: Any) -> Availability:
        if sys.platform == "win32":
            return Availability(False, "needs a POSIX system", "use Linux or macOS, or WSL")
        if importlib.util.find_spec("wasmtime") is None:
            return Availability(False, "wasmtime is not installed", artefacts.INSTALL)
        if "webassembly" in masked_layers():
            return Availability(False, "the layer webassembly is switched off", UNMASK)
        try:
            path = artefacts.component_path() if wasm_binary_path is None else Path(wasm_binary_path)
            built = path.is_file()
            details = {"wasmtime": artefacts.runtime_version(), "guest": str(path) if built else "not built yet"}
        except ClocheError as exc:
            return Availability(False, exc.message, exc.remedy or "")
        if not built and wasm_binary_path is not None:
            return Availability(False, f"there is no binary at {path}", "pass the path of a python.wasm")
        if not built and importlib.util.find_spec("componentize_py") is None:
            return Availability(False, "the guest is not built, and what builds it is not installed", artefacts.INSTALL)
        lacking = () if sys.platform == "linux" else ("protect_state",)
        return Availability(True, isolation=Isolation.METERED, layers=wasm_layers(), details=details, lacking=lacking)

    def abilities(self) -> frozenset[str]:
        return self.capabilities if sys.platform == "linux" else self.capabilities - {"protect_state"}

    def expected_isolation(self) -> Isolation:
        return Isolation.METERED

    @classmethod
    def set_up(cls, tell: Callable[[str], object], advance: Callable[[float], object] = float) -> Mapping[str, Any]:
        binary = building.ensure(None, building.Progress(tell, advance))
        facts = binary.facts() or {}
        return {
            "python": facts.get("python"),
            "guest": str(binary.path),
            "compiled": str(binary.compiled),
            "interrupts": "keep the session" if facts.get("trigger") else "end the session",
        }

    @property
    def prepared(self) -> bool:
        return self._binary is not None

    def prepare(self) -> None:
        """Have the guest built and compiled. Nothing to do but for the first session of a user."""
        if "webassembly" in masked_layers():
            raise BackendUnavailableError("the layer webassembly is switched off", remedy=UNMASK)
        if importlib.util.find_spec("wasmtime") is None:
            raise BackendUnavailableError("the wasm backend needs wasmtime", remedy=artefacts.INSTALL)
        self._binary = building.ensure(self._given, building.on_terminal())
        _known[self._given] = self._binary

    def savepoint(self, channel: Channel, policy: ExecutionPolicy, replaced: WaitingCopy | None) -> WasmCopy:
        assert isinstance(channel, WasmChannel)
        return WasmCopy(channel)

    def refuse_context(self, context: Any, policy: ExecutionPolicy) -> None:
        if type(context) is not str:
            return  # bounded by the size of a value
        room = min(policy.memory_bytes or LARGEST_MEMORY, LARGEST_MEMORY)
        width = 1 if context.isascii() else 2
        if OWN_MEMORY + 2 * width * len(context) > room:  # as it comes, and as it is kept
            raise ValueTransferError(
                f"the context has {len(context)} characters; the guest may have {room} bytes of memory in all",
                remedy="raise policy.memory_bytes (a guest of 32 bits can have 4 GiB), pass it as a file, or use jail",
            )

    def open(self, policy: ExecutionPolicy, workspace: Workspace, timeout: float) -> WasmChannel:
        if not workspace.private:
            from cloche.backends.protected_places import refuse_protected

            refuse_protected(workspace)
        if self._binary is None:
            self.prepare()
        assert self._binary is not None
        layers = tuple(layer.name for layer in wasm_layers() if layer.active)
        folders = self._guest_folders(workspace)
        process = workers.claim(Kind(self._binary, policy.workspace_bytes, frozenset(layers) & SEPARABLE))
        channel = WasmChannel(process, workspace, folders, _options(policy, bounded="rlimits" in layers))
        channel.layers = layers
        channel.greeting = _greeting(policy)
        return channel

    def _guest_folders(self, workspace: Workspace) -> tuple[GuestFolder, ...]:
        """What the guest finds. Resolved for the first guest only: later ones could find what it has put there."""
        if self._folders is None:
            root = str(workspace.root)
            folders = [GuestFolder(os.path.realpath(root), "/app", True)]
            home = workspace.places().get("HOME")
            if home is not None:
                folders.append(GuestFolder(os.path.realpath(home), GUEST_HOME, True))
            if self._packages is not None and os.path.isdir(self._packages):
                folders.append(GuestFolder(resolve(self._packages, root), f"/app/{PACKAGES}", False))
            self._folders = tuple(folders)
        return self._folders


def _options(policy: ExecutionPolicy, *, bounded: bool) -> dict[str, Any]:
    """What the process of a session is told of it."""
    memory = min(policy.memory_bytes or LARGEST_MEMORY, LARGEST_MEMORY)
    frame = max(policy.value_max_bytes, policy.display_max_bytes) + FRAME_SLACK
    attachment = policy.snapshot_max_bytes + FRAME_SLACK
    copies = 1 + policy.protect_state + min(attachment, memory) / memory
    room = OWN_ROOM + THREAD_ROOM * (os.cpu_count() or 1) + int(memory * copies) + FORMS_OF_A_FRAME * min(frame, memory)
    return {
        "fuel": policy.fuel_budget,
        "memory": memory,
        "deterministic": policy.deterministic,
        "frame": frame,
        "attachment": attachment,
        "room": room if bounded else None,
    }


def _greeting(policy: ExecutionPolicy) -> dict[str, Any]:
    """What is told to a guest at its start."""
    environment = {"HOME": GUEST_HOME, "TMPDIR": f"{GUEST_HOME}/tmp", "PWD": "/app", "LANG": "C.UTF-8"}
    return {
        "workspace": "/app",
        "path": [f"/app/{PACKAGES}"],
        "environment": {**environment, **policy.environment},
    }
