"""Making sandboxes: configuration, registry, and the choice that `auto` makes."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cloche.config import SandboxConfig, load_config
from cloche.errors import BackendUnavailableError, IsolationError, UnknownBackendError
from cloche.isolation import Isolation
from cloche.policy import refuse_unknown
from cloche.sandbox import SessionSandbox

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from importlib.metadata import EntryPoint

    from cloche.aio import AsyncSandbox
    from cloche.logger import SandboxLogger
    from cloche.policy import ExecutionPolicy
    from cloche.result import SandboxResult
    from cloche.session.channel import Availability, Backend

GROUP = "cloche.backends"
AUTO_ORDER = ("daemon", "jail", "native", "wasm", "pyodide")
AUTO_MINIMUM = Isolation.CONFINED
"""What `auto` is content with when the policy does not say. Less than a boundary must be asked for."""


_KEYWORDS = ("backend", "policy", "workspace", "logger", "on_llm_query", "on_rlm_query", "tools", "python")
"""What `create_sandbox` takes beside the fields of the policy and the options of a backend."""


class Unset:
    """Says that an argument was not given (None may be a value)."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset()


@functools.cache
def _builtin_backends() -> dict[str, tuple[str, str]]:
    """Backends that are part of this package, importable without looking through every installed package."""
    return {
        "native": ("cloche.backends.native", "NativeBackend"),
        "jail": ("cloche.backends.jail.backend", "JailBackend"),
        "daemon": ("cloche.backends.daemon.backend", "DaemonBackend"),
        "pyodide": ("cloche.backends.pyodide.backend", "PyodideBackend"),
        "wasm": ("cloche.backends.wasm.backend", "WasmBackend"),
        "fake": ("cloche.testing", "FakeBackend"),
        "inprocess": ("cloche.backends.inprocess.backend", "InProcessBackend"),
    }


def _entry_points() -> Iterable[EntryPoint]:
    """Backends of other packages. Looking through all installed packages is slow, so only where it must be."""
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def backend_names() -> list[str]:
    """Names of all registered backends."""
    return sorted({*_builtin_backends(), *(point.name for point in _entry_points())})


def find_backend(name: str) -> type[Backend]:
    """The backend registered under `name`."""
    import importlib

    builtin = _builtin_backends().get(name)
    if builtin is not None:
        found: type[Backend] = getattr(importlib.import_module(builtin[0]), builtin[1])
        return found
    for point in _entry_points():
        if point.name == name:
            loaded: type[Backend] = point.load()
            return loaded
    import difflib

    names = ["auto", *backend_names()]
    near = difflib.get_close_matches(name.lower(), names, n=1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    raise UnknownBackendError(f"there is no backend {name!r}", remedy=f"{guess}one of: {', '.join(names)}")


def probe_backends(**options: Any) -> dict[str, Availability]:
    """What each registered backend says of this machine. One that cannot even be imported is not available."""
    from cloche.session.channel import Availability

    found = {}
    for name in backend_names():
        try:
            backend = find_backend(name)
        except (ImportError, AttributeError) as exc:
            found[name] = Availability(
                False, f"cannot be imported: {exc}", "install or remove the package that registers it"
            )
            continue
        found[name] = backend.probe(**{key: value for key, value in options.items() if key in backend.options})
    return found


def choose_backend(policy: ExecutionPolicy, options: Mapping[str, Any]) -> tuple[type[Backend], dict[str, str]]:
    """The backend that `auto` takes, and why each earlier one was passed over."""
    demanded = policy.minimum_isolation if policy.minimum_isolation is not None else AUTO_MINIMUM
    skipped: dict[str, str] = {}
    remedies: list[str] = []
    order = [name for name in AUTO_ORDER if name in _builtin_backends()]
    while order:
        name = order.pop(0)
        backend = find_backend(name)
        availability = backend.probe(**{key: value for key, value in options.items() if key in backend.options})
        able = backend.capabilities.difference(availability.lacking)
        lacking = [demand for demand in policy.demands() if demand not in able]
        if options.get("python") is not None and "python" not in backend.options:
            skipped[name] = "runs a Python of its own, and another one was named"
        elif not availability.available:
            skipped[name] = availability.reason
            if name == "native" and "pyodide" in order:  # no Python: it stands in, as it brings everything along
                order.remove("pyodide")
                order.insert(0, "pyodide")
            if name != "daemon":  # which would not stand behind a better wall
                remedies.append(availability.remedy)
        elif lacking:
            names = [demand.removesuffix("_access") for demand in lacking]
            skipped[name] = f"cannot honour policy.{', policy.'.join(names)}"
        elif availability.isolation is not None and availability.isolation < demanded:
            skipped[name] = f"gives {availability.isolation.name}, {demanded.name} is demanded"
        else:
            return backend, skipped
    reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped.items()) or "none is registered"
    if any("is demanded" in reason for reason in skipped.values()):
        if policy.minimum_isolation is None:
            remedies.append("to run without a boundary, say so: minimum_isolation='process', or backend='native'")
        raise IsolationError(
            "no backend reaches the demanded isolation",
            cause=reasons,
            remedy="; or ".join([*filter(None, remedies), "see what is missing: cloche doctor"]),
        )
    raise BackendUnavailableError(
        "no backend can run here", cause=reasons, remedy="cloche doctor shows what is missing and how to get it"
    )


def create_sandbox(
    config: SandboxConfig | Mapping[str, Any] | None = None,
    /,
    *,
    backend: str | Unset = UNSET,
    policy: ExecutionPolicy | Unset = UNSET,
    workspace: str | os.PathLike[str] | Unset | None = UNSET,
    logger: SandboxLogger | Unset | None = UNSET,
    on_llm_query: Callable[..., Any] | Unset | None = UNSET,
    on_rlm_query: Callable[..., Any] | Unset | None = UNSET,
    tools: Mapping[str, Any] | Unset | None = UNSET,
    python: str | os.PathLike[str] | Unset | None = UNSET,
    **backend_options: Any,
) -> SessionSandbox:
    """Make a sandbox. Nothing is started before its first use.

    `config` is a `SandboxConfig` or a mapping; without it the configuration file and ``CLOCHE_*`` variables count.
    Only keywords that are passed override it. `backend` is ``auto`` or a registered name. Policy fields
    (`timeout_ms`, `memory_bytes`, ...) may be given as keywords too.
    """
    settings, chosen, options, skipped = _settle(config, backend, policy, workspace, python, backend_options)
    kind = sandbox_type(chosen)
    given = _given(logger, on_llm_query, on_rlm_query, tools)
    sandbox = kind(settings.policy, settings.workspace, **given, **options)
    sandbox.passed_over = skipped
    return sandbox


def create_async_sandbox(
    config: SandboxConfig | Mapping[str, Any] | None = None,
    /,
    *,
    backend: str | Unset = UNSET,
    policy: ExecutionPolicy | Unset = UNSET,
    workspace: str | os.PathLike[str] | Unset | None = UNSET,
    logger: SandboxLogger | Unset | None = UNSET,
    on_llm_query: Callable[..., Any] | Unset | None = UNSET,
    on_rlm_query: Callable[..., Any] | Unset | None = UNSET,
    tools: Mapping[str, Any] | Unset | None = UNSET,
    python: str | os.PathLike[str] | Unset | None = UNSET,
    **backend_options: Any,
) -> AsyncSandbox:
    """Make a sandbox for an event loop; the same arguments as `create_sandbox`."""
    return prepare_async_sandbox(
        config, backend=backend, policy=policy, workspace=workspace, python=python,
        logger=logger, on_llm_query=on_llm_query, on_rlm_query=on_rlm_query, tools=tools, **backend_options,
    ).make()  # fmt: skip


@dataclass(frozen=True, slots=True)
class PreparedSandbox:
    """A sandbox that can be made, any number of times: everything about it has been settled and checked."""

    policy: ExecutionPolicy
    make: Callable[[], AsyncSandbox]


def prepare_async_sandbox(
    config: SandboxConfig | Mapping[str, Any] | None = None, /, **options: Any
) -> PreparedSandbox:
    """Everything that `create_async_sandbox` decides, by the same arguments, without the sandbox."""
    from cloche.aio import AsyncSandbox

    extra = _given(*(options.pop(name, UNSET) for name in ("logger", "on_llm_query", "on_rlm_query", "tools")))
    named = {name: options.pop(name, UNSET) for name in ("backend", "policy", "workspace", "python")}
    settings, chosen, chosen_options, skipped = _settle(config, **named, extra=options)

    def make() -> AsyncSandbox:
        sandbox = AsyncSandbox(chosen(**chosen_options), settings.policy, settings.workspace, **extra)
        sandbox.passed_over = skipped
        return sandbox

    return PreparedSandbox(settings.policy, make)


def run(code: str, config: SandboxConfig | Mapping[str, Any] | None = None, /, **options: Any) -> SandboxResult:
    """Run one piece of code in a fresh sandbox and return its result; keywords as for `create_sandbox`.

    `context` binds the variable of that name, `on_output` listens.
    """
    context, on_output = options.pop("context", None), options.pop("on_output", None)
    with create_sandbox(config, **options) as sandbox:
        if context is not None:
            sandbox.initialize(context)
        return sandbox.execute(code, on_output=on_output)


@functools.cache
def sandbox_type(backend: type[Backend]) -> type[SessionSandbox]:
    """The class that users see for a backend."""
    if backend.name == "native":
        from cloche.native import NativePythonSandbox

        return NativePythonSandbox
    if backend.name == "jail":
        from cloche.jail import JailSandbox

        return JailSandbox
    if backend.name == "inprocess":
        from cloche.inprocess import InProcessSandbox

        return InProcessSandbox
    if backend.name == "daemon":
        from cloche.remote import DaemonClientSandbox

        return DaemonClientSandbox
    if backend.name == "pyodide":
        from cloche.pyodide import PyodideSandbox

        return PyodideSandbox
    if backend.name == "wasm":
        from cloche.wasm import PythonSandbox

        return PythonSandbox
    if backend.sandbox is not None:
        return backend.sandbox
    return type(f"{backend.name.capitalize()}Sandbox", (SessionSandbox,), {"backend_type": backend})


def _settle(
    config: SandboxConfig | Mapping[str, Any] | None,
    backend: str | Unset,
    policy: ExecutionPolicy | Unset,
    workspace: Any,
    python: Any,
    extra: dict[str, Any],
) -> tuple[SandboxConfig, type[Backend], dict[str, Any], dict[str, str]]:
    """All sources of configuration as one, the backend, its options, and what was passed over before it."""
    if isinstance(config, SandboxConfig):
        settings = config
    else:
        settings = load_config()
        if config is not None:
            settings = SandboxConfig.from_mapping(config, base=settings)
    from cloche.policy import ExecutionPolicy

    passed = {"backend": backend, "policy": policy, "workspace": workspace, "python": python}
    overrides = {name: value for name, value in passed.items() if not isinstance(value, Unset)}
    names = (*ExecutionPolicy.field_names(), "timeout", "memory")
    overrides |= {name: extra.pop(name) for name in list(extra) if name in names}
    settings = SandboxConfig.from_mapping(overrides, base=settings) if overrides else settings
    options = {**settings.options, **extra}
    if settings.python is not None:
        options["python"] = settings.python
    name = settings.backend or "auto"
    try:
        chosen, skipped = choose_backend(settings.policy, options) if name == "auto" else (find_backend(name), {})
    except UnknownBackendError as exc:
        if not isinstance(backend, Unset) or config is not None:
            raise
        where = "the configuration names it: cloche config shows where"
        raise UnknownBackendError(exc.message, cause=where, remedy=exc.remedy) from None
    if "python" in options and "python" not in chosen.options:
        options.pop("python")
    if "context" in options:
        raise TypeError("a sandbox is made without a context; initialize(context) gives it one")
    refuse_unknown(options, (*chosen.options, *names, *_KEYWORDS), f"option of the {chosen.name} backend")
    if name == "auto" and chosen.name == "daemon":  # which may have no place when one is wanted
        options["else_here"] = True
    return settings, chosen, options, skipped


def _given(logger: Any, on_llm_query: Any, on_rlm_query: Any, tools: Any) -> dict[str, Any]:
    passed = {"logger": logger, "on_llm_query": on_llm_query, "on_rlm_query": on_rlm_query, "tools": tools}
    return {name: value for name, value in passed.items() if not isinstance(value, Unset)}
