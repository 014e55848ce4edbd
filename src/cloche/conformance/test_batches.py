"""Many host calls at once: in order, side by side, each on its own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from cloche.conformance.waiting import PATIENCE

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox


class InFlight:
    """Counts how many calls are under way at the same time."""

    def __init__(self, company: int) -> None:
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()
        self._company = threading.Barrier(company)

    def __call__(self, *args: Any) -> str:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self._company.wait(PATIENCE)  # nobody leaves before so many are here
        with self._lock:
            self._now -= 1
        return "done"


def upper_or_fail(prompt: str) -> str:
    """Fails for one prompt only."""
    if prompt == "bad":
        raise ValueError("this one only")
    return prompt.upper()


def test_batch_answers_come_in_order(open_sandbox: OpenSandbox) -> None:
    first_may_go = threading.Event()

    def last_first(prompt: str) -> str:
        if prompt == "c":
            first_may_go.set()
        elif prompt == "a":
            first_may_go.wait(PATIENCE)
        return prompt.upper()

    sandbox = open_sandbox(on_llm_query=last_first)
    assert sandbox.execute("llm_query_batched(['a', 'b', 'c'])").value == "['A', 'B', 'C']"


def test_an_empty_batch_is_an_empty_list(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(on_llm_query=upper_or_fail, on_rlm_query=upper_or_fail)
    assert sandbox.execute("llm_query_batched([]), rlm_query_batched([])").value == "([], [])"


def test_one_failed_item_is_that_items_error_only(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(on_llm_query=upper_or_fail)
    result = sandbox.execute("llm_query_batched(['a', 'bad', 'c'])")
    assert result.value == "['A', '[Error: ValueError: this one only]', 'C']"


def test_a_failed_item_is_a_text_that_can_be_told_from_an_answer(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(on_llm_query=upper_or_fail)
    sandbox.execute("good, bad = llm_query_batched(['a', 'bad'])")
    assert sandbox.execute("isinstance(bad, str), type(bad) is str, type(good) is str").value == "(True, False, True)"


def test_batch_items_run_side_by_side(open_sandbox: OpenSandbox) -> None:
    calls = InFlight(company=4)
    sandbox = open_sandbox(on_llm_query=calls, max_concurrent=4)
    assert sandbox.execute("llm_query_batched(list('abcd'))").value == str(["done"] * 4)


@pytest.mark.parametrize("bridge", ["llm", "rlm"])
def test_no_more_items_run_at_once_than_allowed(open_sandbox: OpenSandbox, bridge: str) -> None:
    """Known defect ("batch concurrency"): batches ran without bound."""
    calls = InFlight(company=3)
    sandbox = open_sandbox(on_llm_query=calls, on_rlm_query=calls, max_concurrent=3)
    sandbox.execute(f"{bridge}_query_batched(list('abcdefghi'))").check()
    assert calls.most == 3


def test_five_items_run_at_once_by_default(open_sandbox: OpenSandbox) -> None:
    calls = InFlight(company=5)
    open_sandbox(on_rlm_query=calls).execute("rlm_query_batched(list('abcdefghij'))").check()
    assert calls.most == 5


@pytest.mark.parametrize("alias", ["llm_query_batched", "batch_llm_query"])
def test_a_prompt_batch_has_two_names(open_sandbox: OpenSandbox, alias: str) -> None:
    assert open_sandbox(on_llm_query=upper_or_fail).execute(f"{alias}(['a'])").value == "['A']"


@pytest.mark.parametrize("alias", ["rlm_query_batched", "batch_rlm_query"])
def test_a_task_batch_takes_texts_pairs_and_dicts(open_sandbox: OpenSandbox, alias: str) -> None:
    sandbox = open_sandbox(on_rlm_query=lambda task, ctx: f"{task}/{ctx}")
    sandbox.initialize("whole")
    result = sandbox.execute(f"{alias}(['a', ('b', 'part'), {{'task': 'c', 'context': 'piece'}}, {{'task': 'd'}}])")
    assert result.value == "['a/whole', 'b/part', 'c/piece', 'd/whole']"


def test_a_batch_passes_the_model_to_each_item(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(on_llm_query=lambda prompt, model=None: f"{prompt}/{model}")
    assert sandbox.execute("llm_query_batched(['a', 'b'], model='m')").value == "['a/m', 'b/m']"


def test_a_text_in_place_of_a_batch_is_refused(open_sandbox: OpenSandbox) -> None:
    result = open_sandbox(on_llm_query=upper_or_fail).execute("llm_query_batched('not a list')")
    assert result.exception is not None
    assert result.exception.type == "TypeError"


def test_a_batch_over_the_limit_of_host_calls_is_refused_whole(open_sandbox: OpenSandbox) -> None:
    asked: list[str] = []
    sandbox = open_sandbox(on_llm_query=asked.append, max_bridge_calls=3)
    assert "limit of 3" in str(sandbox.execute("llm_query_batched(list('abcd'))").error)
    assert asked == []


def test_a_batch_of_hundreds_is_answered(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(on_llm_query=lambda prompt: prompt)
    code = "prompts = [str(n) for n in range(300)]\nllm_query_batched(prompts) == prompts"
    assert sandbox.execute(code).value == "True"


def test_an_item_that_never_returns_fails_alone(open_sandbox: OpenSandbox) -> None:
    gate = threading.Event()
    sandbox = open_sandbox(
        on_llm_query=lambda prompt: "here" if prompt == "quick" else gate.wait(PATIENCE), bridge_timeout_ms=200
    )
    try:
        result = sandbox.execute("llm_query_batched(['slow', 'quick'])")
    finally:
        gate.set()
    assert result.value == "['[Error: TimeoutError: no answer within 200 ms]', 'here']"
