"""rlms: `LocalREPL`, where recursive language models usually run cells: in the host's own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.row import Contender, Sampler
from benchmarks.stopwatch import MICROSECONDS, timed

NAME = "rlms LocalREPL"


@contextmanager
def repl(**options: Any) -> Iterator[Any]:
    """A fresh environment."""
    from rlm.environments.local_repl import LocalREPL

    environment = LocalREPL(**options)
    try:
        yield environment
    finally:
        environment.cleanup()


def run_cell(environment: Any, code: str) -> str:
    """Run a cell; what it printed. Raises when the cell failed, which LocalREPL reports on stderr."""
    result = environment.execute_code(code)
    if result.stderr:
        raise RuntimeError(f"the cell failed in LocalREPL: {result.stderr.strip()}")
    return str(result.stdout)


def running_repl(sample: Callable[[Any], Sequence[float]]) -> Contender:
    """Samples that one environment gives."""

    @contextmanager
    def open_repl() -> Iterator[Sampler]:
        with repl() as environment:
            yield lambda: sample(environment)

    return Contender(NAME, open_repl)


@contextmanager
def model_server() -> Iterator[tuple[str, int]]:
    """rlms' own server for `llm_query`, with a model that answers at once: the bridge without the model."""
    from rlm.clients.base_lm import BaseLM
    from rlm.core.lm_handler import LMHandler
    from rlm.core.types import ModelUsageSummary, UsageSummary

    class Echo(BaseLM):  # type: ignore[misc]  # rlms is read without its types: it need not be installed
        def completion(self, prompt: Any) -> str:
            return str(prompt)

        async def acompletion(self, prompt: Any) -> str:
            return str(prompt)

        def get_last_usage(self) -> Any:
            return ModelUsageSummary(total_calls=1, total_input_tokens=1, total_output_tokens=1)

        def get_usage_summary(self) -> Any:
            return UsageSummary(model_usage_summaries={})

    with LMHandler(Echo("echo")) as handler:
        yield handler.address


def llm_queries(count: int = 50) -> Contender:
    """The time of one `llm_query`, so many in a cell, in microseconds."""
    cell = f"for i in range({count}): assert llm_query('hi') == 'hi'"

    @contextmanager
    def query_loop() -> Iterator[Sampler]:
        with model_server() as address, repl(lm_handler_address=address) as environment:
            yield lambda: [timed(lambda: run_cell(environment, cell), MICROSECONDS) / count]

    return Contender(f"{NAME} llm_query", query_loop)
