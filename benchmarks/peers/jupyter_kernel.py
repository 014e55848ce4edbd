"""ipykernel, driven by jupyter_client: what most code interpreters are built on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.row import Contender, Sampler
from benchmarks.stopwatch import MILLISECONDS, timed

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient

NAME = "ipykernel"
PATIENCE = 120.0


@contextmanager
def kernel() -> Iterator[BlockingKernelClient]:
    """A kernel of this interpreter, ready for requests."""
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3")
    # It warns about its transport at each start.
    manager.start_kernel(extra_arguments=["--log-level=ERROR"])
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


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
