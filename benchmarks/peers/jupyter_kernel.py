"""ipykernel, driven by jupyter_client: what most code interpreters are built on."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.row import Contender, Sampler
from benchmarks.stopwatch import MICROSECONDS, MILLISECONDS, timed

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient

NAME = "ipykernel"
WITH_PICKLE = f"{NAME} + cloudpickle"
PATIENCE = 120.0
_SAVE = """
import cloudpickle
with open({path!r}, 'wb') as file:
    cloudpickle.dump({{name: globals()[name] for name in {names!r}}}, file, protocol=5)
"""
_LOAD = """
import pickle
with open({path!r}, 'rb') as file:
    globals().update(pickle.load(file))
print('hi')
"""


@contextmanager
def kernels(count: int) -> Iterator[list[BlockingKernelClient]]:
    """Kernels of this interpreter, started side by side, ready for requests."""
    from jupyter_client.manager import KernelManager

    with ExitStack() as stack:
        clients = []
        for _ in range(count):
            manager = KernelManager(kernel_name="python3")
            # It warns about its transport at each start.
            manager.start_kernel(extra_arguments=["--log-level=ERROR"])
            stack.callback(manager.shutdown_kernel, now=True)
            client = manager.client()
            client.start_channels()
            stack.callback(client.stop_channels)
            clients.append(client)
        for client in clients:
            client.wait_for_ready(timeout=PATIENCE)
        yield clients


@contextmanager
def kernel() -> Iterator[BlockingKernelClient]:
    """A kernel of this interpreter, ready for requests."""
    with kernels(1) as clients:
        yield clients[0]


def run_cell(client: BlockingKernelClient, code: str) -> int:
    """Run a cell; the number of characters that it printed. Raises when the cell failed."""
    printed = 0

    def count(message: dict[str, Any]) -> None:
        nonlocal printed
        if message["header"]["msg_type"] == "stream":
            printed += len(message["content"]["text"])

    reply = client.execute_interactive(
        code, store_history=False, allow_stdin=False, timeout=PATIENCE, output_hook=count
    )
    if reply["content"]["status"] != "ok":
        raise RuntimeError(f"the cell failed in ipykernel: {reply['content'].get('evalue', '')}")
    return printed


def running_kernel(sample: Callable[[BlockingKernelClient], Sequence[float]]) -> Contender:
    """Samples that one kernel gives."""

    @contextmanager
    def open_kernel() -> Iterator[Sampler]:
        with kernel() as client:
            yield lambda: sample(client)

    return Contender(NAME, open_kernel)


def live_cells(cell: str, count: int) -> Contender:
    """The time of one cell in a kernel that is up, so many in a round, in microseconds."""
    return running_kernel(lambda client: [timed(lambda: run_cell(client, cell), MICROSECONDS) for _ in range(count)])


def fresh_kernel() -> Contender:
    """From nothing to the first answer, a new kernel each time."""

    @contextmanager
    def open_kernels() -> Iterator[Sampler]:
        def sample() -> Sequence[float]:
            context = kernel()

            def first_answer() -> None:
                run_cell(context.__enter__(), "print('hi')")

            try:
                return [timed(first_answer, MILLISECONDS)]
            finally:
                context.__exit__(None, None, None)

        yield sample

    return Contender(NAME, open_kernels)


def ended_kernel() -> Contender:
    """Ending a kernel that has answered."""

    @contextmanager
    def open_kernels() -> Iterator[Sampler]:
        def sample() -> Sequence[float]:
            context = kernel()
            run_cell(context.__enter__(), "print('hi')")
            return [timed(lambda: context.__exit__(None, None, None), MILLISECONDS)]

        yield sample

    return Contender(NAME, open_kernels)


def copied_kernel(state: str, names: Sequence[str], count: int = 1, *, saved: bool = False) -> Contender:
    """Copies of a kernel's variables in new kernels, until each has answered. `saved`: they lie on disk already.

    A kernel cannot branch; this is what is done in its place.
    """

    @contextmanager
    def open_kernel() -> Iterator[Sampler]:
        with kernel() as original, tempfile.NamedTemporaryFile(suffix=".pickle") as file:
            save = _SAVE.format(path=file.name, names=list(names))
            run_cell(original, state)
            run_cell(original, save)

            def sample() -> Sequence[float]:
                with ExitStack() as stack:

                    def copy() -> None:
                        if not saved:
                            run_cell(original, save)
                        for client in stack.enter_context(kernels(count)):
                            run_cell(client, _LOAD.format(path=file.name))

                    return [timed(copy, MILLISECONDS)]

            yield sample

    return Contender(WITH_PICKLE, open_kernel)


def saving_kernel(state: str, cell: str, names: Sequence[str]) -> Contender:
    """A cell after which the variables are saved, so that a kernel that dies can be brought back."""

    @contextmanager
    def open_kernel() -> Iterator[Sampler]:
        with kernel() as client, tempfile.NamedTemporaryFile(suffix=".pickle") as file:
            run_cell(client, state)
            protected = cell + "\n" + _SAVE.format(path=file.name, names=list(names))

            yield lambda: [timed(lambda: run_cell(client, protected), MILLISECONDS)]

    return Contender(WITH_PICKLE, open_kernel)
