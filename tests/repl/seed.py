"""The chapter on the REPL environment that the workbench grew from: each of its statements, and what was wrong with the
system that it describes, with the tests that show how it is here. `tests/test_seeds.py` looks whether they exist."""

from __future__ import annotations

WALLS = "tests/repl/test_every_wall.py::"
HOSTILE = "tests/repl/test_hostile_turns.py::"
PARALLEL = "tests/repl/test_parallel_dispatch.py::"
SPILL = "tests/repl/test_spilled_output.py::"
SOURCES = "tests/repl/test_sources.py::"
SEARCH = "tests/repl/test_searching.py::"
CONFIG = "tests/repl/test_configuration.py::"
COUNTS = "tests/repl/test_accounting.py::"
KEPT = "tests/repl/test_checkpoints.py::"
ASYNC = "tests/repl/test_async_environment.py::"
MASKS = "tests/repl/test_redaction.py::"
VISITOR = "tests/guardrails/test_visitor.py::"
UNICODE = "tests/guardrails/test_unicode.py::"
INPROCESS = "tests/inprocess/"
COMMAND = "tests/cli/test_workbench.py::"

CHAPTER = {
    "AST-Based Validation: the forbidden lists": [
        VISITOR + "test_the_visitor_has_the_forbidden_lists_of_the_specification"
    ],
    "AST over regex: getattr(__builtins__, '__im' + 'port__')": [
        VISITOR + "test_the_example_of_the_specification_is_caught"
    ],
    "Dual-Layer Sandboxing: RestrictedPython with PrintCollector": [
        INPROCESS + "test_restricted.py::test_ordinary_code_works",
        INPROCESS + "test_restricted.py::test_prints_of_nested_functions_come_in_order",
        INPROCESS + "test_restricted.py::test_the_missing_extra_comes_with_the_command",
    ],
    "peek(n): first n chars": [
        SOURCES + "test_peek_shows_the_beginning",
        WALLS + "test_peek_and_grep_look_at_the_context",
    ],
    "grep(pattern): regex search": [SEARCH + "test_a_hit_has_its_line_its_column_its_place_and_its_text"],
    "FINAL(answer): terminate with result": [WALLS + "test_final_ends_the_turn_even_where_it_is_caught"],
    "timeout_seconds = 600, 120 for general use": [
        CONFIG + "test_defaults_are_those_of_the_seed",
        CONFIG + "test_general_work_has_two_minutes",
        CONFIG + "test_the_time_limit_of_the_configuration_is_that_of_a_turn",
    ],
    "output_cap = 8192": [SPILL + "test_output_at_the_cap_is_shown_as_it_is"],
    "spill_dir": [SPILL + "test_output_over_the_cap_goes_whole_to_the_file_of_its_turn"],
    "max_grep_results = 100": [HOSTILE + "test_grep_gives_no_more_than_the_configuration_allows"],
    "require_exploration_before_final, min_exploration_calls": [WALLS + "test_the_exploration_rule_holds"],
    "{spill_dir}/{session_id}/turn_{N}.txt and a summary": [
        SPILL + "test_output_over_the_cap_goes_whole_to_the_file_of_its_turn",
        SPILL + "test_the_path_of_a_stored_output_is_a_source_too",
    ],
    "Rolling summary: previous summary + new tail, 10 lines, 512 tokens": [
        SPILL + "test_a_model_keeps_a_rolling_summary",
        SPILL + "test_what_a_model_is_asked_is_bounded_whatever_it_said_before",
    ],
    "Fallback: static head (15 lines) + tail (5 lines)": [
        SPILL + "test_without_a_model_the_summary_is_the_head_and_the_tail",
        SPILL + "test_a_model_that_fails_costs_only_its_summary",
    ],
    "On-demand access: peek(spill_path), grep(spill_path, pattern)": [
        SPILL + "test_every_hint_of_the_footer_can_be_typed",
        SPILL + "test_the_order_of_the_seed_works_for_grep",
        SPILL + "test_the_path_of_a_stored_output_is_a_source_too",
    ],
    "PromptConfig.max_output_preview = 1500": [SPILL + "test_a_summary_never_outgrows_its_preview"],
    "Trusted vs User Code Layers": [
        WALLS + "test_guard_rails_report_everything_at_once",
        SOURCES + "test_without_roots_no_file_is_seen",
        HOSTILE + "test_functions_that_are_done_inside_cannot_be_used_to_answer_without_an_end",
    ],
    "Attack surface 1: import bypass": [
        VISITOR + "test_import_bypass_each_listed_module_is_reported_in_every_form_of_import"
    ],
    "Attack surface 2: dunder escapes": [VISITOR + "test_dunder_escapes_each_listed_attribute_is_reported"],
    "Attack surface 3: string subscript": [
        VISITOR + "test_string_subscript_is_refused_in_process_and_not_reported_behind_a_wall",
        HOSTILE + "test_a_key_like_dunder_dict_is_refused_in_process_and_plain_data_behind_a_wall",
    ],
    "Attack surface 4: eval and exec": [
        VISITOR + "test_eval_exec_each_listed_call_is_reported_also_when_it_is_only_named"
    ],
    "Known limitation, here none: CPU DoS": [WALLS + "test_a_turn_that_does_not_end_is_ended"],
    "Known limitation, here none: regex DoS": [
        SEARCH + "test_what_a_linear_engine_lacks_is_refused_by_its_name",
        SEARCH + "test_python_s_own_engine_is_never_used_for_the_text",
    ],
    "Unicode Sanitizer: replacements, fast path, before every execution path": [
        UNICODE + "test_a_character_of_prose_becomes_what_python_knows",
        UNICODE + "test_fast_path_ascii_comes_back_as_it_is_whether_it_compiles_or_not",
        PARALLEL + "test_code_is_repaired_before_calls_are_planned",
    ],
    "Parallel Read-Only Dispatch: independent calls run concurrently": [
        PARALLEL + "test_four_calls_in_one_turn_are_under_way_at_once",
        ASYNC + "test_async_tools_and_models_are_awaited_and_run_side_by_side",
    ],
    "Conservative fallback on any ambiguity": [PARALLEL + "test_where_there_is_doubt_nothing_is_made_ahead"],
    "parallel_tools = True": [CONFIG + "test_defaults_are_those_of_the_seed"],
}

DEFECTS = {
    "0 the footer's calls fail as printed": [SPILL + "test_every_hint_of_the_footer_can_be_typed"],
    "0 the exploration rule holds in one mode only": [WALLS + "test_the_exploration_rule_holds"],
    "0 RestrictedPython replaces the first layer and loses most features": [
        INPROCESS + "test_restricted.py::test_ordinary_code_works"
    ],
    "0 print(peek(3)) defeats parallel dispatch": [
        PARALLEL + "test_calls_that_will_be_made_are_found_wherever_they_stand"
    ],
    "0, 3.4 the time-out: main thread only, swallowed, absent on the parallel path": [
        INPROCESS + "test_hostile.py::test_a_time_out_cannot_be_swallowed",
        INPROCESS + "test_inline.py::test_a_time_out_reaches_any_thread_and_the_variables_stay",
        PARALLEL + "test_the_deadline_holds_for_calls_that_were_made_ahead",
    ],
    "1.1 errors are strings that nobody reads": [WALLS + "test_an_error_says_its_line_and_keeps_what_was_printed"],
    "1.1 chunk_context drops the end": [
        SOURCES + "test_cuts_lose_nothing",
        SOURCES + "test_pieces_of_a_context_of_any_kind_make_its_text",
    ],
    "1.1 FINAL_VAR looks in one place": [HOSTILE + "test_final_var_looks_in_variables_and_then_in_artifacts"],
    "1.1 grep has no line numbers": [WALLS + "test_hits_say_where_they_are"],
    "1.1 reads have no size cap": [
        SOURCES + "test_a_file_that_grows_while_it_is_read_is_read_within_bounds_and_not_kept"
    ],
    "2.1 only the first violation is reported": [WALLS + "test_guard_rails_report_everything_at_once"],
    "2.2 ways around the validator": [VISITOR + "test_a_known_way_around_the_lists_is_reported_in_process"],
    "2.2 policy edited from inside": [
        HOSTILE + "test_functions_that_are_done_inside_cannot_be_used_to_answer_without_an_end"
    ],
    "3.2 an error without line or source": [WALLS + "test_an_error_says_its_line_and_keeps_what_was_printed"],
    "3.2 BaseException escapes to the host": [
        HOSTILE + "test_whatever_a_tool_raises_stays_with_the_code_that_called_it"
    ],
    "3.3 FINAL is swallowed": [HOSTILE + "test_final_ends_the_turn_from_wherever_it_is_called"],
    "3.3 FINAL in a comment, a string, dead code": [
        WALLS + "test_final_in_a_comment_a_string_or_dead_code_ends_nothing"
    ],
    "3.3 a look that failed counts": [WALLS + "test_the_exploration_rule_holds"],
    "3.5 two sessions in two threads mix their outputs": [
        HOSTILE + "test_two_environments_in_two_threads_do_not_mix",
        HOSTILE + "test_turns_of_several_threads_do_not_mix",
        INPROCESS + "test_inline.py::test_threads_do_not_mix_their_output",
    ],
    "3.6 tuples, sets and functions are lost, the context is not verified": [
        KEPT + "test_variables_of_every_kind_come_back_behind_another_wall",
        KEPT + "test_another_context_is_noticed_before_anything_is_changed",
    ],
    "3.6 get_state calls repr first": [HOSTILE + "test_the_state_is_short_and_never_asks_the_objects"],
    "4.1 one long line is repeated whole by the summary": [SPILL + "test_one_very_long_line_is_cut_too"],
    "4.1 a reused session overwrites; no clean-up, quota, permissions": [
        SPILL + "test_two_environments_with_one_folder_do_not_overwrite_each_other",
        SPILL + "test_the_oldest_outputs_give_way_to_the_quota",
        SPILL + "test_outputs_of_an_environment_that_nobody_closed_go_with_it",
        SPILL + "test_output_over_the_cap_goes_whole_to_the_file_of_its_turn",
    ],
    "4.3 a call is executed twice": [
        PARALLEL + "test_nothing_is_called_twice_and_what_is_not_used_does_not_count",
        PARALLEL + "test_what_cannot_travel_as_it_stands_is_not_called_twice",
    ],
    "4.3 old values of names are read": [PARALLEL + "test_results_are_those_of_one_call_after_the_other"],
    "4.5 lists cost nothing": [COUNTS + "test_a_call_is_counted_as_it_would_be_printed"],
    "4.6 the sanitizer corrupts strings; x¹² becomes x**1**2": [
        UNICODE + "test_code_that_compiles_is_never_changed",
        UNICODE + "test_strings_and_comments_keep_every_character",
        UNICODE + "test_a_character_of_prose_becomes_what_python_knows",
    ],
    "4.9 redaction is skipped on FINAL, errors, parallel output and long texts": [
        HOSTILE + "test_a_secret_is_masked_wherever_it_comes_out",
        PARALLEL + "test_secrets_are_masked_also_in_what_was_made_ahead",
        MASKS + "test_chunking_never_changes_the_outcome",
        MASKS + "test_a_secret_longer_than_anything_that_is_kept_is_masked_whole",
    ],
    "6 any escape reaches the host": [INPROCESS + "test_hostile.py::test_what_the_guard_refuses_is_not_run"],
    "6 free peek and grep": [
        COUNTS + "test_a_turn_is_counted_by_what_is_shown_and_not_by_what_was_read",
        COUNTS + "test_of_a_stored_output_only_the_summary_is_counted",
    ],
    "6 the gate is bypassed by an alias": [
        PARALLEL + "test_a_call_that_changes_something_takes_back_what_was_made_ahead"
    ],
    "6 hard-coded services and roots": [SOURCES + "test_roots_may_lie_in_each_other_be_links_or_be_missing"],
    "6 a person at the same bench": [COMMAND + "test_a_person_completes_waits_stops_and_leaves"],
}
