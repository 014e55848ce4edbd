"""Behaviours that the in-process backend is not asked for: its guards refuse the code that they are shown with.

Nothing else is left out, and a test proves of each that its guard does refuse that code. A name may carry the one
variant that is meant. The same list, for readers, is in docs/guard-rails.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

_BOTH: dict[str, tuple[str, ...]] = {
    "imports _thread": ("test_a_cell_that_does_not_end_times_out_and_keeps_its_variables[a lock]",),
    "imports asyncio": (
        "test_a_cell_that_does_not_end_times_out_and_keeps_its_variables[an await]",
        "test_an_asyncio_task_goes_on_in_the_next_awaiting_cell",
        "test_await_works_at_top_level",
        "test_no_cell_goes_on_after_its_last_word",
        "test_tasks_can_be_made_without_awaiting_as_in_a_notebook",
        "test_what_works_elsewhere_comes_with_a_hint[no loop]",
    ),
    "imports gc": ("test_a_bridge_does_not_reveal_host_objects",),
    "imports inspect": (
        "test_every_function_has_one_signature",
        "test_the_source_of_a_function_can_be_read_in_a_later_cell",
    ),
    "imports os": (
        "test_a_hard_exit_gives_a_result_and_the_next_cell_works",
        "test_a_hard_exit_with_status_zero_is_told_too",
        "test_a_module_is_imported_again",
        "test_a_reply_printed_by_the_cell_is_only_output",
        "test_a_secret_in_the_hosts_environment_is_not_visible",
        "test_a_workspace_that_a_cell_removed_is_an_error_and_not_a_crash",
        "test_bytes_that_are_not_utf_8_are_replaced",
        "test_created_files_are_reported",
        "test_descriptors_that_a_cell_closed_work_in_the_next",
        "test_home_and_temporary_folder_are_not_the_hosts",
        "test_output_past_pythons_streams_is_captured",
        "test_reset_empties_a_private_workspace",
        "test_the_policy_gives_environment_variables",
        "test_the_workspace_survives_a_hard_exit",
        "test_what_a_cell_wrote_can_be_fetched",
        "test_what_was_printed_before_a_hard_exit_is_kept",
        "test_what_was_printed_before_the_last_word_is_kept_and_nothing_after",
    ),
    "imports pickle": ("test_classes_defined_in_cells_can_be_pickled",),
    "imports subprocess": ("test_children_start_as_interpreters_of_the_user",),
    "imports sys": (
        "test_a_cell_reads_the_input_that_it_was_given",
        "test_a_flood_of_output_is_bounded",
        "test_a_stdout_that_a_cell_broke_works_in_the_next",
        "test_check_accepts_an_exit_with_status_zero",
        "test_error_is_empty_when_the_code_succeeds",
        "test_exit_ends_the_cell_and_not_the_session",
        "test_exit_with_a_text_prints_it",
        "test_input_reads_what_code_put_in_the_place_of_stdin",
        "test_output_over_the_limit_is_cut_and_says_how_much",
        "test_running_out_of_memory_is_a_security_event",
        "test_running_out_of_memory_is_its_own_outcome",
        "test_standard_input_is_empty",
        "test_text_for_stderr_is_in_stderr",
        "test_the_guest_has_no_command_line",
        "test_the_hosts_modules_are_not_in_the_guest",
        "test_the_listener_is_told_the_stream",
        "test_versions_are_those_of_the_guest",
    ),
    "imports warnings": ("test_a_warning_is_no_error",),
    "makes a module of types.ModuleType": ("test_what_cannot_be_saved_is_named_with_its_reason",),
    "opens files": (
        "test_a_cell_reads_what_was_put",
        "test_a_file_can_be_put_while_the_session_lives",
        "test_a_file_put_from_outside_is_not_the_cells_doing",
        "test_a_giant_that_is_mostly_holes_is_not_read",
        "test_a_given_folder_is_the_workspace",
        "test_a_workspace_over_its_quota_is_pointed_out",
        "test_any_name_works",
        "test_deleted_files_are_reported",
        "test_destroy_leaves_a_given_workspace_as_it_is",
        "test_files_that_were_there_before_are_not_reported_as_created",
        "test_files_written_by_a_cell_that_died_are_reported",
        "test_files_written_by_a_cell_that_failed_are_reported",
        "test_modified_files_are_reported",
        "test_reset_keeps_a_given_workspace",
        "test_the_working_directory_is_the_workspace",
    ),
    "sets __module__ and __qualname__": ("test_a_class_that_poses_as_a_date_does_not_break_the_session",),
    "uses __annotations__": ("test_future_imports_work",),
    "uses __import__ or open": (
        "test_what_does_not_travel_is_described[__import__('sys')]",
        "test_what_does_not_travel_is_described[open('f', 'w')]",
    ),
    "uses eval in __reduce__": (
        "test_an_object_that_refuses_to_be_restored_costs_only_itself",
        "test_what_a_snapshot_runs_when_it_is_read_runs_inside_the_wall",
    ),
    "uses globals": (
        "test_initialize_without_a_context_takes_the_old_one_away",
        "test_two_sandboxes_do_not_see_each_others_variables",
        "test_variables_go_through_one_text",
        "test_variables_stay_and_the_next_cell_runs",
        "test_without_a_context_the_name_is_not_bound",
    ),
    "uses the builtin": (
        "test_what_works_elsewhere_comes_with_a_hint[breakpoint]",
        "test_every_builtin_is_there[__import__]",
        "test_every_builtin_is_there[eval]",
        "test_every_builtin_is_there[exec]",
        "test_every_builtin_is_there[open]",
    ),
}
_AST: dict[str, tuple[str, ...]] = {
    "uses __reduce__": (
        "test_an_object_that_refuses_to_be_saved_costs_only_itself[def __reduce__(self): return self.__reduce__()]",
    ),
    "uses input": (
        "test_input_comes_with_guidance",
        "test_input_says_that_there_is_no_terminal",
    ),
}
_RESTRICTED: dict[str, tuple[str, ...]] = {
    "assigns __repr__": (
        "test_a_mime_bundle_of_an_object_is_shown_whole",
        "test_a_value_with_a_rich_form_is_displayed",
    ),
    "defines _ipython_display_": ("test_an_object_that_shows_itself_is_not_shown_again",),
    "imports IPython.display": ("test_code_for_notebooks_finds_the_displays_of_ipython",),
    "awaits": ("test_top_level_await_is_valid_code",),
    "imports matplotlib.pyplot": (
        "test_a_figure_that_is_the_value_is_shown_once",
        "test_an_open_figure_is_displayed_at_the_end_of_the_cell",
    ),
    "imports no_such_package_here": ("test_a_missing_package_comes_with_guidance",),
    "imports own_module": ("test_a_module_in_the_workspace_can_be_imported",),
    "imports pytest": ("test_installed_packages_can_be_imported",),
    "uses __dir__": ("test_completion_has_a_deadline",),
    "uses __reduce__": (
        "test_a_snapshot_has_a_deadline",
        "test_an_object_that_refuses_to_be_saved_costs_only_itself",
    ),
    "uses __setattr__": ("test_an_exception_that_resists_being_reported_is_reported",),
    "uses _hidden": ("test_variables_are_listed_with_their_types",),
    "uses _private": ("test_names_that_begin_with_an_underscore_stay",),
}
"""What the code of a behaviour does, and the behaviours."""

_INLINE: dict[str, tuple[str, ...]] = {
    "saves or restores variables, which runs code that would be run here": (
        "test_a_snapshot_has_a_deadline",
        "test_a_witness_is_told_of_everything_in_order",
    ),
    "imports a module from the workspace, which is not on the host's search path": (
        "test_a_module_in_the_workspace_can_be_imported",
    ),
    "leaves figures open, and the host's would be closed with them": (
        "test_a_figure_that_is_the_value_is_shown_once",
        "test_an_open_figure_is_displayed_at_the_end_of_the_cell",
    ),
    "imports modules of notebooks, which would be changed in the host": (
        "test_code_for_notebooks_finds_the_displays_of_ipython",
    ),
    "reads standard input, which is the host's": (
        "test_a_cell_reads_the_input_that_it_was_given",
        "test_input_reads_what_code_put_in_the_place_of_stdin",
        "test_input_that_is_no_text_is_refused",
    ),
    "is in a call into C, which ends when it ends": (
        "test_a_catastrophic_pattern_ends_at_the_deadline_and_keeps_the_session",
        "test_a_cell_that_does_not_end_times_out_and_keeps_its_variables[a regular expression]",
        "test_a_cell_that_does_not_end_times_out_and_keeps_its_variables[a sleep]",
        "test_a_cell_that_does_not_end_times_out_and_keeps_its_variables[arithmetic]",
        "test_cancel_from_another_thread_stops_the_cell[import time; time.sleep(1000)]",
    ),
    "redirects sys.stdout, which is the host's": ("test_redirect_stdout_works_inside_a_cell",),
}
_INLINE_TOPICS = {"test_snapshot": "saves or restores variables, which runs code that would be run here"}
"""What ``worker="inline"`` cannot do, whatever the guard."""


def left_out(guard: str) -> dict[str, str]:
    """By the name of the behaviour, what its code does that this guard refuses."""
    found = {}
    for table in (_BOTH, _AST if guard == "ast" else _RESTRICTED):
        for reason, names in table.items():
            found.update(dict.fromkeys(names, reason))
    return found


def why_left_out(test: pytest.Item, guard: str, worker: str = "process") -> str | None:
    """Why this test is not run with this guard in this kind of worker; None when it is."""
    for entry, reason in left_out(guard).items():
        if _means(entry, test):
            return f"the guard {guard} refuses its code, which {reason}"
    if worker == "inline":
        topic = getattr(getattr(test, "function", None), "__module__", "").rpartition(".")[2]
        if topic in _INLINE_TOPICS:
            return f"it {_INLINE_TOPICS[topic]}"
        for reason, entries in _INLINE.items():
            if any(_means(entry, test) for entry in entries):
                return f"it {reason}"
    return None


def _means(entry: str, test: pytest.Item) -> bool:
    meant, _, only = entry.partition("[")
    if meant != getattr(test, "originalname", test.name):
        return False
    variant: Any = getattr(test, "callspec", None)
    return not only or (variant is not None and f"-{variant.id}]".endswith(f"-{only}"))
