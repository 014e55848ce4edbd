"""The jail's guarantees, sealed and confined."""

from __future__ import annotations

from cloche.guarantees.table import CONFINED, METERED, SEALED, UNMETERED, Guarantee, by_the_host

_NEIGHBOURS = (
    "neighbour_ended", "neighbour_stopped", "neighbour_slowed", "neighbour_limits", "neighbour_files",
    "neighbour_memory", "neighbour_group",
)  # fmt: skip
_SERVICES = ("local_tcp", "local_udp", "local_socket", "abstract_socket", "urllib_fetch", "taken_name")
_OTHERS = (
    "signal_others", "kill_by_handle", "trace_others", "memory_of_others", "limits_of_others", "priority_of_others",
    "processes_seen",
)  # fmt: skip
_LEFT_BEHIND = ("left_behind_at_exit", "left_behind_by_double_fork", "left_behind_when_killed")
_OWN_SECRETS = ("garbage_collector", "traceback_frame", "tool_globals", "inherited_descriptors", "library_os")
_COUNTED = (
    "queued_signals", "timers", "descriptors_in_flight", "epoll_watches", "file_watches", "keys", "message_queues",
    "shared_memory", "locked_memory", "locks", "open_files", "terminals", "control_groups", "namespaces", "mounts",
    "ports", "abstract_names",
)  # fmt: skip
_LITTLE_USED = ("older_machine_calls", "probe_bpf", "probe_io_uring_setup", "probe_userfaultfd", "probe_keyctl")

SEALED_JAIL = (
    Guarantee(
        "jail", SEALED, "files", "they do not exist for it; the interpreter and the system's libraries are read-only",
        ("view", "namespaces", "landlock", "seccomp"),
        ("subclasses", "poisoned_bytecode", "shadow_modules", "rights_of_shared_files", "flags_of_shared_files",
         "hard_linked_outside", "roots_of_others", "jail/test_jail.py::test_only_the_view_exists",
         "jail/test_leaks.py::test_the_list_of_mounts_names_nothing_of_the_host",
         "jail/test_jail.py::test_system_and_libraries_cannot_be_written"),
    ),
    Guarantee(
        "jail", SEALED, "obeyed",
        "interpreter, cache, configuration, saved sessions and the daemon's folder are covered read-only; other code "
        "of yours is not",
        ("view",),
        ("jail/test_protected_places.py::test_an_environment_in_the_workspace_can_be_read_and_not_changed",
         "jail/test_protected_places.py::test_a_writable_mount_is_covered_like_a_workspace"),
    ),
    Guarantee(
        "jail", SEALED, "network", "there is none, and no service of the host can be reached or kept from its name",
        ("network", "view", "seccomp", "landlock", "scope"), _SERVICES,
    ),
    Guarantee(
        "jail", SEALED, "processes", "they do not exist for it; priorities and limits are its own process's alone",
        ("namespaces", "seccomp", "landlock", "scope"),
        (*_OTHERS, "jail/test_processes.py::test_priorities_limits_and_processors_are_set_of_oneself_only"),
    ),
    Guarantee(
        "jail", SEALED, "neighbours", "its variables, files, limits, deadline and speed stay as they are",
        ("namespaces", "landlock", "seccomp", "scope"),
        (*_NEIGHBOURS, "jail/test_leaks.py::test_names_of_abstract_sockets_are_a_sessions_own",
         "jail/test_processes.py::test_every_process_of_a_jail_leads_a_session_of_its_own",
         "jail/test_processes.py::test_a_signal_to_the_own_group_reaches_no_other_session_without_landlocks_scope"),
    ),
    Guarantee(
        "jail", SEALED, "branches",
        "a branch reaches neither its session nor other branches; a session reaches no file or memory of its branch, "
        "but can signal it (SECURITY.md says more)",
        ("namespaces", "landlock"),
        ("jail/test_branch_walls.py::test_a_session_cannot_look_into_what_its_branch_started",
         "jail/test_branch_walls.py::test_a_process_in_the_sessions_own_seat_is_not_taken_for_a_branch",
         "jail/test_branch_walls.py::test_an_open_folder_leads_into_the_branchs_own_files",
         "jail/test_branch_walls.py::test_a_session_can_signal_its_branch"),
    ),
    Guarantee(
        "jail", SEALED, "survival", "nothing of it is left: no process, mount, cgroup or file",
        ("namespaces", "lifeline"),
        (*_LEFT_BEHIND, "jail/test_clean_up.py::test_nothing_survives_a_host_that_is_killed_with_many_sessions",
         "jail/test_clean_up.py::test_nothing_survives_where_there_are_no_cgroups"),
    ),
    Guarantee(
        "jail", SEALED, "rights", "it is a user without a name, without capabilities, and cannot become another",
        ("capabilities", "namespaces", "seccomp"),
        ("host_renamed", "probe_setuid", "probe_capset", "probe_mount", "probe_ptrace",
         "jail/test_jail.py::test_the_guest_is_in_none_of_the_groups_of_the_host",
         "jail/test_jail.py::test_no_set_id_file_can_be_left_in_a_given_folder"),
    ),
    Guarantee(
        "jail", SEALED, "kernel", "system calls and options that are not on the lists never get to the kernel",
        ("seccomp",),
        (*_LITTLE_USED, "jail/test_controls_of_files.py::test_what_is_not_on_the_lists_never_gets_to_the_kernel"),
    ),
    Guarantee(
        "jail", METERED, "memory", "the whole session is bounded, whatever kind of memory it is", ("cgroup", "rlimits"),
        ("jail/test_meter.py::test_many_processes_share_one_bound",
         "jail/test_meter.py::test_memory_that_no_limit_of_a_process_counts_is_bounded",
         "jail/test_meter.py::test_a_hoard_of_memory_files_is_bounded"),
    ),
    Guarantee(
        "jail", UNMETERED, "memory", "each process is bounded, not all together; what the kernel keeps for it is not",
        ("rlimits", "seccomp"), ("jail/test_unmetered_memory.py::test_a_process_cannot_hold_more_than_its_limit",),
    ),
    Guarantee(
        "jail", METERED, "number", "the session is bounded as a whole", ("cgroup", "rlimits"),
        ("jail/test_meter.py::test_a_fork_bomb_stays_inside",),
    ),
    Guarantee(
        "jail", UNMETERED, "number", "processes of a session are counted in its own namespace",
        ("rlimits", "namespaces"),
        ("processes", "process_numbers", "jail/test_jail.py::test_processes_are_bounded_in_each_session"),
    ),
    Guarantee(
        "jail", METERED, "cpu", "with `policy.cpus`, no more than that in any period", ("cgroup",),
        ("jail/test_meter.py::test_a_quota_is_measured_out_in_each_period",
         "jail/test_meter.py::test_a_quota_is_refused_where_it_cannot_be_had"),
    ),
    Guarantee("jail", UNMETERED, "cpu", "nothing: it competes as any program does, and `policy.cpus` is refused"),
    Guarantee(
        "jail", SEALED, "counted",
        "each session of root's has a user of its own; of others, what would be counted is refused but for pipes",
        ("namespaces", "network", "view", "seccomp", "rlimits"),
        ("watches_exhausted", "lease_on_shared_files", *_COUNTED,
         "jail/test_outside_users.py::test_each_session_has_a_user_of_its_own",
         "jail/test_outside_users.py::test_signals_that_a_guest_queues_are_not_counted_for_root",
         "jail/test_shared_user.py::test_what_is_counted_by_user_is_refused_and_the_rest_works"),
    ),
    Guarantee(
        "jail", SEALED, "disk", "its files lie in a file system in memory, with a quota", ("view",),
        ("jail/test_jail.py::test_the_workspace_has_a_quota",
         "jail/test_meter.py::test_files_of_the_workspace_are_bounded_by_their_own_quota"),
    ),
    Guarantee(
        "jail", SEALED, "secrets", "they are in another process, and the environment is built from nothing",
        ("environment", "process"), _OWN_SECRETS,
    ),
    *by_the_host("jail", SEALED, "process"),
)  # fmt: skip

CONFINED_JAIL = (
    Guarantee(
        "jail", CONFINED, "files",
        "only the interpreter, the system and its own folders can be opened; names, sizes and times can be seen",
        ("landlock", "seccomp"),
        ("subclasses", "times_and_rights", "rights_of_shared_files", "flags_of_shared_files", "renamed_folder",
         "jail/test_confined.py::test_only_the_sessions_own_folders_can_be_written",
         "jail/test_confined.py::test_only_the_interpreter_and_the_system_can_be_read"),
    ),
    Guarantee(
        "jail", CONFINED, "obeyed", "a folder with such a part in it is refused, and the part is named", ("host",),
        ("jail/test_protected_places.py::test_a_wall_without_a_view_refuses_such_a_folder_and_names_the_part",),
    ),
    Guarantee(
        "jail", CONFINED, "network", "no socket can be made that leads anywhere", ("network", "landlock"),
        (*_SERVICES, "jail/test_confined.py::test_no_socket_leads_out_but_event_loops_work"),
    ),
    Guarantee(
        "jail", CONFINED, "processes", "their numbers can be seen, and no more", ("landlock", "scope", "seccomp"),
        (*_OTHERS, "jail/test_confined.py::test_processes_of_the_host_cannot_be_read_or_signalled",
         "jail/test_confined.py::test_limits_and_priorities_of_other_processes_cannot_be_changed"),
    ),
    Guarantee(
        "jail", CONFINED, "neighbours", "its variables, files, limits, deadline and speed stay as they are",
        ("landlock", "scope", "seccomp"),
        (*_NEIGHBOURS, "jail/test_confined.py::test_sessions_do_not_reach_each_other",
         "jail/test_processes.py::test_a_confined_session_signals_its_own_group_alone"),
    ),
    Guarantee(
        "jail", CONFINED, "survival", "a keeper out of its reach ends all of it", ("lifeline", "seccomp", "landlock"),
        (*_LEFT_BEHIND, "jail/test_confined.py::test_nothing_that_a_cell_started_can_leave_its_group",
         "jail/test_confined.py::test_nothing_survives_a_host_that_is_killed"),
    ),
    Guarantee(
        "jail", CONFINED, "rights", "it has no capabilities, is never root, and cannot become another",
        ("capabilities", "seccomp"),
        ("host_renamed", "probe_setuid", "probe_capset",
         "jail/test_confined.py::test_a_guest_is_never_root_and_has_no_capabilities",
         "jail/test_confined.py::test_no_set_id_file_can_be_made"),
    ),
    Guarantee(
        "jail", CONFINED, "kernel", "system calls and options that are not on the lists never get to the kernel",
        ("seccomp",), _LITTLE_USED,
    ),
    Guarantee(
        "jail", CONFINED, "memory", "each process is bounded, not all together", ("rlimits",),
        ("conformance/test_isolation.py::test_the_memory_limit_holds",),
    ),
    Guarantee(
        "jail", CONFINED, "number", "bounded, and counted for each session before one is made", ("seccomp", "rlimits"),
        ("processes", "process_numbers",
         "jail/test_confined.py::test_a_fork_bomb_is_bounded_and_leaves_the_user_room"),
    ),
    Guarantee("jail", CONFINED, "cpu", "nothing, unless the layer `cgroup` is listed: it competes as any program does"),
    Guarantee(
        "jail", CONFINED, "counted", "what would be counted is refused or bounded, but for pipes",
        ("seccomp", "landlock", "rlimits"), ("watches_exhausted", "lease_on_shared_files", *_COUNTED),
    ),
    Guarantee(
        "jail", CONFINED, "disk", "each file is bounded, all together are not", ("rlimits",),
        ("jail/test_confined.py::test_a_file_cannot_grow_over_the_quota",),
    ),
    Guarantee(
        "jail", CONFINED, "secrets", "they are in another process, and the environment is built from nothing",
        ("environment", "process"), _OWN_SECRETS,
    ),
    *by_the_host("jail", CONFINED, "process"),
)  # fmt: skip
