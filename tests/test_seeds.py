"""The specifications this project grew from: every scenario, and the tests that prove it.

``cloche.conformance::name`` is a behaviour that runs on every backend and on both APIs; other entries are paths.
The scenarios that no conformance test can prove (they are about choosing, not about a session) are tested here.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.repl import seed as workbench

import cloche.factory
from cloche.backends.native import NativeBackend
from cloche.conformance import load_behaviours
from cloche.errors import BackendUnavailableError, UnknownBackendError
from cloche.factory import choose_backend, create_sandbox, probe_backends
from cloche.isolation import Isolation
from cloche.logger import SandboxLogger
from cloche.native import NativePythonSandbox
from cloche.policy import ExecutionPolicy
from cloche.result import SandboxResult
from cloche.sandbox import BaseSandbox
from cloche.session.channel import Availability, Backend

ROOT = Path(__file__).parent.parent
HERE = "tests/test_seeds.py::"
SUITE = "cloche.conformance::"
WASM = "tests/wasm/test_python_sandbox.py::"

REPL_SANDBOX = {
    "Initialize with context": [SUITE + "test_text_arrives_unchanged"],
    "Cleanup on destroy": [
        SUITE + "test_destroy_releases_every_descriptor",
        SUITE + "test_destroy_leaves_no_folder_behind",
        SUITE + "test_destroy_ends_the_process_and_its_children",
    ],
    "Execute returns result": [SUITE + "test_a_cell_gives_a_result_with_output_error_and_duration"],
    "Stdout capture": [SUITE + "test_printed_text_is_in_stdout"],
    "Stderr capture": [SUITE + "test_text_for_stderr_is_in_stderr"],
    "Error capture": [SUITE + "test_the_error_field_holds_type_and_message"],
    "Timeout exceeded": [
        SUITE + "test_a_cell_that_does_not_end_times_out_and_keeps_its_variables",
        SUITE + "test_the_error_of_a_time_out_says_timeout",
    ],
    "Timeout configurable": [SUITE + "test_the_configured_time_out_is_used_in_milliseconds"],
    "Output within limit": [SUITE + "test_output_up_to_the_limit_is_whole"],
    "Output exceeds limit": [SUITE + "test_output_over_the_limit_is_cut_and_says_how_much"],
    "llm_query function": [SUITE + "test_llm_query_returns_what_the_callback_answers"],
    "rlm_query function": [SUITE + "test_rlm_query_passes_task_and_context"],
    "rlm_query default context": [
        SUITE + "test_rlm_query_without_a_context_passes_the_sessions_own",
        SUITE + "test_rlm_query_passes_a_context_that_the_cell_has_changed",
    ],
    "chunk_text function": [SUITE + "test_every_function_gives_the_answer_of_the_table"],
    "search_context function": [SUITE + "test_every_function_gives_the_answer_of_the_table"],
    "Get existing variable": [SUITE + "test_an_existing_variable_is_returned"],
    "Get missing variable": [SUITE + "test_a_missing_variable_is_none"],
}

BACKENDS = {
    "Backend type enumeration": [HERE + "test_a_backend_that_does_not_exist_is_refused_with_those_that_do"],
    "Auto-select daemon when running": [
        HERE + "test_auto_takes_a_daemon_that_answers",
        "tests/daemon/test_lifecycle.py::test_auto_takes_a_daemon_that_answers",
    ],
    "Auto-select native when Python available": [
        HERE + "test_auto_takes_native_where_python_is_found",
        HERE + "test_auto_passes_over_a_daemon_that_does_not_answer",
    ],
    "Fallback to Pyodide": [
        HERE + "test_auto_falls_back_to_pyodide_where_no_python_is_found",
        "tests/pyodide/test_choice.py::test_auto_takes_pyodide_where_no_python_is_found",
    ],
    "Explicit backend selection": [HERE + "test_a_named_backend_is_the_one_that_is_used"],
    "JSON-RPC protocol": [
        "tests/guest/test_foreign_host.py::test_a_cell_runs_without_any_greeting",
        "tests/guest/test_foreign_host.py::test_several_requests_at_once_are_answered_in_order",
    ],
    "Execute code": [SUITE + "test_a_cell_gives_a_result_with_output_error_and_duration"],
    "Bridge callback handling": [
        SUITE + "test_llm_query_returns_what_the_callback_answers",
        SUITE + "test_rlm_query_passes_task_and_context",
    ],
    "Context injection": [SUITE + "test_text_arrives_unchanged"],
    "Python availability check": [HERE + "test_native_is_available_only_with_python_3_8_or_later"],
    "IPC connection": ["tests/daemon/test_lifecycle.py::test_the_command_starts_it_uses_it_and_stops_it"],
    "Socket path": ["tests/daemon/test_places.py::test_the_socket_lies_where_the_specification_says"],
    "Named pipe path": [
        "tests/daemon/test_places.py::test_the_pipe_has_the_name_of_the_specification_and_is_for_windows_alone"
    ],
    "Execute via daemon": [
        "tests/daemon/test_lifecycle.py::test_auto_takes_a_daemon_that_answers",
        "tests/daemon/test_wire.py::test_a_session_keeps_its_variables_and_takes_a_context",
    ],
    "Daemon availability check": [
        "tests/daemon/test_lifecycle.py::test_a_daemon_that_hangs_is_passed_over",
        "tests/daemon/test_lifecycle.py::test_without_a_daemon_the_error_says_what_to_type",
    ],
    "Create with config": [HERE + "test_the_factory_returns_the_class_of_the_backend"],
    "Config backend option": [HERE + "test_the_backend_of_the_configuration_is_used"],
    "Shared interface": [SUITE + "test_a_sandbox_is_a_base_sandbox", SUITE + "test_both_apis_have_the_same_names"],
}

BASE_SANDBOX = {
    "Define abstract execute method": [HERE + "test_a_subclass_must_implement_execute_and_validate_code"],
    "Define abstract validate_code method": [
        HERE + "test_a_subclass_must_implement_execute_and_validate_code",
        SUITE + "test_validation_does_not_run_the_code",
        SUITE + "test_valid_code_is_told_from_invalid",
    ],
    "Provide shared initialization": [
        HERE + "test_the_base_class_keeps_policy_workspace_and_logger",
        HERE + "test_the_base_class_has_defaults",
        SUITE + "test_policy_workspace_and_logger_are_kept",
    ],
    "Provide log helper method": [HERE + "test_metrics_are_handed_to_the_logger"],
}

PYTHON_RUNTIME = {
    "Execute Python code successfully": [WASM + "test_execute_python_code_successfully"],
    "Execute with injected setup code": [WASM + "test_execute_with_injected_setup_code"],
    "Execute without injected setup": [WASM + "test_execute_without_injected_setup"],
    "Handle execution errors gracefully": [WASM + "test_handle_execution_errors_gracefully"],
    "Reuse existing host layer logic": [
        WASM + "test_reuse_existing_host_layer_logic",
        WASM + "test_the_one_shot_function_runs_in_a_fresh_session",
    ],
    "Validate syntactically correct code": [WASM + "test_validate_syntactically_correct_code"],
    "Reject syntactically invalid code": [WASM + "test_reject_syntactically_invalid_code"],
    "Validation does not execute code": [WASM + "test_validation_does_not_execute_code"],
    "Use Python compile() for validation": [WASM + "test_use_python_compile_for_validation"],
    "Detect created files": [WASM + "test_detect_created_files"],
    "Detect modified files": [WASM + "test_detect_modified_files"],
    "Exclude user_code.py from delta": [WASM + "test_exclude_user_code_py_from_delta"],
    "Provide relative paths": [WASM + "test_provide_relative_paths"],
    "Measure execution duration": [WASM + "test_measure_execution_duration"],
    "Capture fuel consumption": [WASM + "test_capture_fuel_consumption"],
    "Capture memory usage": [WASM + "test_capture_memory_usage"],
    "Set workspace path": [WASM + "test_set_workspace_path"],
    "Enforce WASI filesystem isolation": [
        WASM + "test_enforce_wasi_filesystem_isolation",
        WASM + "test_a_link_that_the_host_planted_does_not_lead_out",
    ],
    "Enforce fuel limits": [WASM + "test_enforce_fuel_limits"],
    "Enforce memory limits": [WASM + "test_enforce_memory_limits"],
    "Enforce output capping": [WASM + "test_enforce_output_capping"],
    "Log execution start": [WASM + "test_log_execution_start"],
    "Log execution completion": [WASM + "test_log_execution_completion"],
    "Log security violations": [WASM + "test_log_security_violations"],
    "Use default WASM binary": [WASM + "test_use_default_wasm_binary"],
    "Use custom WASM binary": [WASM + "test_use_custom_wasm_binary"],
    "Validate WASM binary exists": [WASM + "test_validate_wasm_binary_exists"],
}

REPL = "tests/repl_server/"
EXECUTOR = "tests/executor/"
REPL_SERVER = {
    "Communication Channel": [REPL + "test_protocol.py::test_frames_are_marker_lines_around_one_line_of_json"],
    "Request Format": [REPL + "test_protocol.py::test_a_wrong_request_is_answered_and_the_server_lives_on"],
    "Response Format": [
        REPL + "test_protocol.py::test_the_response_has_the_six_fields_of_the_document",
        REPL + "test_measured_defects.py::test_created_and_changed_files_are_named",
    ],
    "Delimiter Protocol": [
        REPL + "test_protocol.py::test_a_request_may_come_in_any_pieces",
        REPL + "test_protocol.py::test_markers_in_the_users_data_are_data",
        REPL + "test_framing.py::test_what_was_enclosed_is_found_again_however_it_is_cut",
    ],
    "Data Science": [REPL + "test_preloaded_libraries.py::test_a_name_of_the_document_is_its_module"],
    "Visualization": [REPL + "test_preloaded_libraries.py::test_figures_are_drawn_without_a_screen_and_saved_as_files"],
    "Standard Library": [REPL + "test_preloaded_libraries.py::test_a_name_of_the_document_is_its_module"],
    "Notes": [REPL + "test_preloaded_libraries.py::test_other_libraries_can_be_imported_by_the_code"],
    "State Capture": [REPL + "test_state.py::test_the_state_is_base64_of_lz4_of_one_pickled_dict"],
    "State Restoration": [
        REPL + "test_state.py::test_a_state_that_another_program_made_by_the_document_is_read",
        REPL + "test_state.py::test_a_state_is_restored_in_another_server",
    ],
    "What's Excluded": [REPL + "test_state.py::test_what_the_document_excludes_is_left_out_without_an_error"],
    "Environment Variables": [
        EXECUTOR + "test_settings.py::test_the_defaults_are_those_of_the_document",
        EXECUTOR + "test_settings.py::test_every_variable_is_read",
    ],
    "Disabling REPL": [
        EXECUTOR + "test_lifecycle.py::test_with_repl_off_requests_are_served_one_by_one_and_state_still_works"
    ],
    "Startup Sequence": [REPL + "test_configuration.py::test_the_ready_marker_comes_after_the_imports"],
    "Request Processing": [
        EXECUTOR + "test_requests.py::test_code_runs_and_its_output_state_and_files_come_back",
        EXECUTOR + "test_foreign_servers.py::test_requests_are_pipelined_and_answered_in_order",
    ],
    "Sandbox Destruction": [
        EXECUTOR + "test_requests.py::test_nothing_else_is_carried_from_one_request_to_the_next",
        EXECUTOR + "test_requests.py::test_the_pool_is_filled_again_in_the_background",
    ],
    "Timeout Handling": [EXECUTOR + "test_requests.py::test_a_timeout_kills_the_server_raises_and_another_one_serves"],
    "Syntax Errors": [
        REPL + "test_error_handling.py::test_a_syntax_error_gives_the_reply_of_the_document",
        EXECUTOR + "test_requests.py::test_a_syntax_error_is_that_of_the_document",
    ],
    "Runtime Errors": [
        REPL + "test_error_handling.py::test_a_runtime_error_gives_the_reply_of_the_document",
        EXECUTOR + "test_requests.py::test_a_runtime_error_is_that_of_the_document",
    ],
    "State Serialization Errors": [
        REPL + "test_state.py::test_a_value_that_cannot_be_pickled_gives_the_reply_of_the_document"
    ],
    "REPL Not Starting": [
        EXECUTOR + "test_foreign_servers.py::test_a_server_that_never_gets_ready_is_given_up_after_the_warmup_timeout"
    ],
    "State Not Persisting": [REPL + "test_state.py::test_a_state_above_the_limit_is_refused_with_the_figure"],
    "Debugging REPL Server": [
        REPL + "test_configuration.py::test_debug_logs_requests_and_responses_to_the_real_stderr"
    ],
    "Modifying Pre-imports": [
        REPL + "test_preloaded_libraries.py::test_modules_can_be_added_and_one_that_is_missing_hinders_nobody"
    ],
}

DEFECTS = {
    "1.8.1": [
        "test_llm_query_returns_what_the_callback_answers",
        "test_a_bridge_without_a_callback_says_what_is_missing",
    ],
    "1.8.2": ["test_two_sandboxes_do_not_see_each_others_variables"],
    "1.8.3": ["test_the_first_cell_needs_no_initialize", "test_the_next_cell_after_a_kill_works"],
    "1.8.4": ["test_output_over_the_limit_is_cut_and_says_how_much", "test_a_flood_of_output_is_bounded"],
    "1.8.5": [
        "test_exit_ends_the_cell_and_not_the_session",
        "test_a_hard_exit_gives_a_result_and_the_next_cell_works",
        "test_cancel_when_idle_is_harmless",
        "test_the_session_lives_on_after_cancel",
        "test_reading_a_variable_has_a_deadline",
        "test_get_variable_on_a_lost_session_raises",
        "test_loss_between_cells_is_told_once",
    ],
    "1.8.6": [
        "test_a_reply_printed_by_the_cell_is_only_output",
        "test_input_says_that_there_is_no_terminal",
        "test_standard_input_is_empty",
    ],
    "1.8.7": ["test_fifty_threads_each_get_their_own_answer"],
    "1.8.8": ["test_a_warning_is_no_error", "test_what_was_printed_before_an_exception_is_kept"],
    "1.8.9": [
        "test_time_in_host_functions_does_not_count",
        "test_a_cell_that_does_not_end_times_out_and_keeps_its_variables",
        "test_the_error_of_a_time_out_says_timeout",
    ],
    "1.8.10": ["test_text_arrives_unchanged", "test_positions_count_characters"],
    "1.8.11": [
        "test_an_overlap_that_would_never_end_is_refused",
        "test_a_catastrophic_pattern_ends_at_the_deadline_and_keeps_the_session",
        "test_not_a_number_comes_back",
    ],
    "1.8.12": [
        "test_every_function_has_one_signature",
        "test_rlm_query_passes_a_context_that_the_cell_has_changed",
    ],
    "2.4.1": [
        "test_two_sandboxes_in_threads_keep_their_output_apart",
        "test_the_hosts_own_streams_and_folder_are_not_touched",
    ],
    "2.4.2": [
        "test_exit_ends_the_cell_and_not_the_session",
        "test_the_policys_time_out_is_used",
        "test_output_past_pythons_streams_is_captured",
    ],
    "2.4.3": [
        "test_variables_assigned_before_an_exception_stay",
        "test_names_that_begin_with_an_underscore_stay",
        "test_a_redefined_function_is_seen_by_its_callers",
        "test_every_builtin_is_there",
    ],
    "2.4.4": ["test_text_arrives_unchanged", "test_a_context_may_be_plain_data"],
    "2.4.7": ["test_what_cannot_be_saved_is_named_with_its_reason"],
    "2.4.8": ["test_a_bridge_does_not_reveal_host_objects"],
}
"""Defects of earlier systems that concern a sandbox, by their number in the study of them."""

SCENARIOS: dict[str, dict[str, list[str]]] = {
    "repl sandbox": REPL_SANDBOX,
    "backends": BACKENDS,
    "base sandbox": BASE_SANDBOX,
    "python runtime": PYTHON_RUNTIME,
    "REPL server": REPL_SERVER,
    "workbench": workbench.CHAPTER,
    "what was wrong before the workbench": workbench.DEFECTS,
}


# -- the tables --------------------------------------------------------------------------------


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def exists(test: str) -> bool:
    place, _, name = test.partition("::")
    return name in load_behaviours() if place == "cloche.conformance" else name in functions_of(place)


def proofs() -> Iterable[tuple[str, list[str]]]:
    for topic, table in SCENARIOS.items():
        for scenario, tests in table.items():
            yield f"{topic}: {scenario}", tests


@pytest.mark.parametrize(
    ("scenario", "tests"), list(proofs()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_scenario_is_proved_by_tests_that_exist(scenario: str, tests: list[str]):
    assert tests, scenario
    assert [test for test in tests if not exists(test)] == []


@pytest.mark.parametrize("number", DEFECTS)
def test_every_defect_of_earlier_systems_has_tests_that_name_it(number: str):
    behaviours = load_behaviours()
    named = [name for name, test in behaviours.items() if re.search(rf"\b{re.escape(number)}\b", test.__doc__ or "")]
    assert named
    assert [name for name in DEFECTS[number] if name not in behaviours] == []


# -- choosing a backend ------------------------------------------------------------------------


def stand_in(label: str, *, available: bool) -> type[Backend]:
    """A backend that is only looked at, never opened."""

    class StandIn(NativeBackend):
        name = label

        @classmethod
        def probe(cls, **_: Any) -> Availability:
            return Availability(available, "" if available else f"no {label} here", isolation=Isolation.SEALED)

    return StandIn


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch):
    """Registers these backends and no others."""

    def register(*backends: type[Backend]) -> None:
        known = {backend.name: backend for backend in backends}
        monkeypatch.setattr(cloche.factory, "_builtin_backends", lambda: known)
        monkeypatch.setattr(cloche.factory, "find_backend", known.__getitem__)

    return register


def chosen(**demands: Any) -> tuple[str, dict[str, str]]:
    backend, skipped = choose_backend(ExecutionPolicy(**demands), {})
    return backend.name, skipped


def test_a_backend_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(UnknownBackendError, match="native"):
        create_sandbox(backend="nonesuch")


def test_auto_takes_a_daemon_that_answers(registered):
    registered(stand_in("daemon", available=True), NativeBackend)
    assert chosen() == ("daemon", {})


def test_auto_passes_over_a_daemon_that_does_not_answer(registered):
    registered(stand_in("daemon", available=False), NativeBackend)
    assert chosen(minimum_isolation="process") == ("native", {"daemon": "no daemon here"})


def test_auto_takes_native_where_python_is_found():
    with create_sandbox(backend="auto") as sandbox:
        assert isinstance(sandbox, NativePythonSandbox)


def test_auto_falls_back_to_pyodide_where_no_python_is_found(registered):
    registered(stand_in("native", available=False), stand_in("pyodide", available=True))
    assert chosen() == ("pyodide", {"native": "no native here"})


def test_auto_says_why_each_backend_was_passed_over(registered):
    registered(stand_in("native", available=False), stand_in("pyodide", available=False))
    with pytest.raises(BackendUnavailableError, match="native: no native here; pyodide: no pyodide here"):
        chosen()


@pytest.mark.parametrize("name", ["native", "fake"])
def test_a_named_backend_is_the_one_that_is_used(name: str):
    with create_sandbox(backend=name) as sandbox:
        assert (sandbox.backend, sandbox.execute("1").success) == (name, True)


def test_the_factory_returns_the_class_of_the_backend():
    assert type(create_sandbox({"backend": "native"})) is NativePythonSandbox


def test_the_backend_of_the_configuration_is_used():
    assert create_sandbox({"backend": "fake"}).backend == "fake"


def test_native_is_available_only_with_python_3_8_or_later(tmp_path: Path):
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho Python 3.7.17\n")
    old.chmod(0o755)
    assert probe_backends()["native"].available
    found = probe_backends(python=str(old))["native"]
    assert (found.available, "3.8" in found.reason) == (False, True)
    assert not probe_backends(python=str(tmp_path / "missing"))["native"].available


# -- the base class ----------------------------------------------------------------------------


class Recorder(SandboxLogger):
    def __init__(self) -> None:
        super().__init__()
        self.results: list[SandboxResult] = []

    def log_execution_complete(self, result: SandboxResult) -> None:
        self.results.append(result)


class Minimal(BaseSandbox):
    """The least that a runtime has to bring."""

    def execute(self, code: str) -> SandboxResult:
        result = SandboxResult(outcome="ok", code=code)
        self._log_execution_metrics(result)
        return result

    def validate_code(self, code: str) -> bool:
        return bool(code)


def test_a_subclass_must_implement_execute_and_validate_code():
    assert inspect.isabstract(BaseSandbox)
    assert BaseSandbox.__abstractmethods__ == {"execute", "validate_code"}
    assert Minimal().execute("1").success


def test_the_base_class_keeps_policy_workspace_and_logger(tmp_path: Path):
    policy, logger = ExecutionPolicy(timeout_ms=5), Recorder()
    sandbox = Minimal(policy, tmp_path, logger)
    assert (sandbox.policy, sandbox.workspace, sandbox.logger) == (policy, tmp_path, logger)


def test_the_base_class_has_defaults():
    sandbox = Minimal()
    assert sandbox.policy == ExecutionPolicy()
    assert sandbox.workspace is None
    assert type(sandbox.logger) is SandboxLogger


def test_metrics_are_handed_to_the_logger():
    logger = Recorder()
    result = Minimal(logger=logger).execute("1")
    assert logger.results == [result]
