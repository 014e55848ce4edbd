"""The guarantees of wasm, pyodide and native."""

from __future__ import annotations

from cloche.guarantees.table import CONFINED, METERED, PROCESS, Guarantee, by_the_host

_FILES = ("subclasses", "foreign_functions", "numpy_files", "poisoned_bytecode", "roots_of_others")
_SERVICES = ("local_tcp", "local_udp", "local_socket", "abstract_socket", "urllib_fetch")
_OTHERS = ("signal_others", "trace_others", "memory_of_others", "processes_seen")
_NEIGHBOURS = ("neighbour_ended", "neighbour_stopped", "neighbour_files", "neighbour_memory")
_LEFT_BEHIND = ("left_behind_at_exit", "left_behind_by_double_fork", "left_behind_when_killed")
_OWN_SECRETS = ("garbage_collector", "traceback_frame", "tool_globals", "inherited_descriptors")

WASM = (
    Guarantee(
        "wasm", METERED, "files", "only its workspace and a home exist, opened by descriptor and through no link",
        ("webassembly", "view"),
        (*_FILES, "wasm/test_folders.py::test_a_link_in_place_of_site_packages_does_not_open_the_hosts_folder",
         "wasm/test_folders.py::test_links_at_the_places_that_a_restart_looks_at_lead_nowhere"),
    ),
    Guarantee(
        "wasm", METERED, "obeyed", "a folder with such a part in it is refused, and the part is named", ("host",),
        ("jail/test_protected_places.py::test_a_wall_without_a_view_refuses_such_a_folder_and_names_the_part",),
    ),
    Guarantee("wasm", METERED, "network", "there are no sockets", ("webassembly", "network"), _SERVICES),
    Guarantee("wasm", METERED, "processes", "there are no system calls", ("webassembly",), _OTHERS),
    Guarantee(
        "wasm", METERED, "neighbours", "each session has a memory and a process of its own",
        ("webassembly", "process"),
        (*_NEIGHBOURS, "wasm/test_shared_resources.py::test_a_session_out_of_descriptors_hurts_itself_alone",
         "wasm/test_limits.py::test_other_sessions_do_not_notice_one_that_had_to_be_killed"),
    ),
    Guarantee(
        "wasm", METERED, "survival", "it ends with its process, and that with the host", ("process", "lifeline"),
        (*_LEFT_BEHIND, "wasm/test_sessions.py::test_the_worker_ends_with_its_host"),
    ),
    Guarantee(
        "wasm", METERED, "rights", "there are no system calls to gain any with; a flaw in wasmtime would lead into a "
        "process of your user", ("webassembly",), ("host_renamed", "probe_setuid"),
    ),
    Guarantee(
        "wasm", METERED, "kernel", "no system call of the guest's gets to the kernel", ("webassembly",),
        ("older_machine_calls", "probe_bpf", "probe_io_uring_setup"),
    ),
    Guarantee(
        "wasm", METERED, "memory", "a hard limit on the guest, and one on the process around it", ("memory", "rlimits"),
        ("wasm/test_limits.py::test_the_memory_limit_is_hard_and_the_session_goes_on",
         "wasm/test_limits.py::test_what_a_guest_hands_to_the_host_is_bounded_by_the_guests_memory",
         "wasm/test_shared_resources.py::test_the_memory_of_the_process_is_bounded_with_the_guests"),
    ),
    Guarantee("wasm", METERED, "number", "it cannot start any", ("webassembly",), ("bounded_fork_bomb",)),
    Guarantee(
        "wasm", METERED, "cpu", "with `policy.fuel_budget`, no more instructions than that and the kernel's allowance",
        ("fuel",),
        ("wasm/test_limits.py::test_marks_of_a_cells_own_buy_no_fuel_and_hide_none",
         "wasm/test_limits.py::test_the_budget_is_for_each_cell"),
    ),
    Guarantee(
        "wasm", METERED, "counted", "descriptors are bounded for each session; it has no other kernel objects",
        ("webassembly", "rlimits"),
        ("watches_exhausted",
         "wasm/test_shared_resources.py::test_the_number_of_open_files_is_bounded_for_each_session"),
    ),
    Guarantee(
        "wasm", METERED, "disk", "each file is bounded; the workspace is looked at after each cell", ("rlimits",),
        ("wasm/test_limits.py::test_no_file_can_be_larger_than_the_quota",
         "conformance/test_files.py::test_a_workspace_over_its_quota_is_pointed_out"),
    ),
    Guarantee(
        "wasm", METERED, "secrets", "they are in another memory, of another process, without an environment",
        ("webassembly", "process"),
        (*_OWN_SECRETS, "wasm/test_sessions.py::test_the_worker_has_no_environment_and_no_descriptor_of_the_host"),
    ),
    *by_the_host("wasm", METERED, "webassembly"),
)  # fmt: skip

PYODIDE = (
    Guarantee(
        "pyodide", CONFINED, "files", "Deno denies them, and Landlock where the kernel has it",
        ("webassembly", "permissions", "landlock"),
        (*_FILES, "pyodide/test_script_escapes.py::test_on_the_interpreters_own_thread_it_is_refused",
         "pyodide/test_script_escapes.py::test_not_even_the_program_around_the_interpreter_can_be_read"),
    ),
    Guarantee(
        "pyodide", CONFINED, "obeyed", "a folder with such a part in it is refused, and the part is named", ("host",),
        ("jail/test_protected_places.py::test_a_wall_without_a_view_refuses_such_a_folder_and_names_the_part",),
    ),
    Guarantee(
        "pyodide", CONFINED, "network", "Deno denies it, and seccomp where the kernel has it", ("network", "seccomp"),
        (*_SERVICES, "pyodide/test_script_escapes.py::test_no_module_is_loaded_from_outside"),
    ),
    Guarantee(
        "pyodide", CONFINED, "processes", "Deno denies it, and seccomp where the kernel has it",
        ("permissions", "seccomp"), (*_OTHERS, "pyodide/test_script_escapes.py::test_in_a_worker_it_is_refused"),
    ),
    Guarantee(
        "pyodide", CONFINED, "neighbours", "each session has a process of its own", ("process", "permissions"),
        (*_NEIGHBOURS, "pyodide/test_script_escapes.py::test_nothing_is_stored_for_the_next_session"),
    ),
    Guarantee(
        "pyodide", CONFINED, "survival", "it ends with its process, and that with the host", ("process", "lifeline"),
        (*_LEFT_BEHIND, "pyodide/test_session.py::test_a_host_that_is_killed_takes_busy_guests_along",
         "pyodide/test_session.py::test_destroy_leaves_no_process"),
    ),
    Guarantee(
        "pyodide", CONFINED, "rights", "no permission can be asked for", ("permissions",),
        ("pyodide/test_script_escapes.py::test_a_permission_cannot_be_asked_for",),
    ),
    Guarantee("pyodide", CONFINED, "kernel", "nothing beyond what Deno and V8 keep away, which are large"),
    Guarantee(
        "pyodide", CONFINED, "memory", "Python's memory is bounded, and the process around it", ("rlimits",),
        ("pyodide/test_session.py::test_python_memory_is_bounded_by_the_policy",
         "pyodide/test_session.py::test_the_limits_of_the_operating_system_are_set"),
    ),
    Guarantee("pyodide", CONFINED, "number", "it cannot start any", ("permissions",), ("bounded_fork_bomb",)),
    Guarantee("pyodide", CONFINED, "cpu", "nothing: it competes as any program does"),
    Guarantee("pyodide", CONFINED, "counted", "nothing beyond the limits of one process"),
    Guarantee(
        "pyodide", CONFINED, "disk", "its files live in its memory; what the host keeps of them has the quota",
        ("rlimits",), ("pyodide/test_mirror.py::test_a_file_without_room_is_left_out_whole_and_said_to_be",),
    ),
    Guarantee(
        "pyodide", CONFINED, "secrets", "they are in another process, and the environment is empty",
        ("environment", "process"),
        (*_OWN_SECRETS, "script_bridge",
         "pyodide/test_session.py::test_the_environment_of_the_process_has_nothing_of_the_hosts"),
    ),
    *by_the_host("pyodide", CONFINED, "process"),
)  # fmt: skip

NATIVE = (
    Guarantee("native", PROCESS, "files", "nothing: it is your user"),
    Guarantee("native", PROCESS, "obeyed", "nothing: it is your user"),
    Guarantee("native", PROCESS, "network", "nothing"),
    Guarantee("native", PROCESS, "processes", "nothing: it is your user"),
    Guarantee("native", PROCESS, "neighbours", "nothing: it is your user"),
    Guarantee(
        "native", PROCESS, "survival", "what does not leave its process group ends with it, and with the host",
        ("process", "lifeline"),
        ("native/test_process.py::test_what_the_guest_started_goes_with_it",
         "native/test_host_death.py::test_a_host_that_is_killed_takes_a_busy_guest_and_its_children_along"),
    ),
    Guarantee("native", PROCESS, "rights", "nothing: what your user may become, it may become"),
    Guarantee("native", PROCESS, "kernel", "nothing"),
    Guarantee(
        "native", PROCESS, "memory", "each process is bounded, not all together", ("rlimits",),
        ("native/test_process.py::test_memory_is_bounded_and_the_session_survives",
         "native/test_process.py::test_limits_cannot_be_raised_again"),
    ),
    Guarantee("native", PROCESS, "number", "nothing"),
    Guarantee("native", PROCESS, "cpu", "nothing"),
    Guarantee("native", PROCESS, "counted", "nothing: it is your user"),
    Guarantee(
        "native", PROCESS, "disk", "each file is bounded; the workspace is looked at after each cell", ("rlimits",),
        ("native/test_process.py::test_a_file_cannot_grow_beyond_the_quota",
         "conformance/test_files.py::test_a_workspace_over_its_quota_is_pointed_out"),
    ),
    Guarantee(
        "native", PROCESS, "secrets", "they are not inherited; the host's process it may read where the system lets it",
        ("environment", "process"),
        ("garbage_collector", "traceback_frame", "tool_globals", "inherited_descriptors",
         "native/test_process.py::test_no_variable_of_the_host_is_visible_but_the_few_that_are_allowed",
         "native/test_process.py::test_the_secret_is_not_in_the_memory_that_was_inherited"),
    ),
    *by_the_host("native", PROCESS, "process"),
)  # fmt: skip
