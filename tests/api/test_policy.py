"""A policy says no by name."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloche import ExecutionPolicy, Isolation, Mount, PolicyError

FIELDS = {field.name: field for field in dataclasses.fields(ExecutionPolicy)}
NUMBERS = [name for name, field in FIELDS.items() if str(field.type).startswith("int")]
FLAGS = [name for name, field in FIELDS.items() if str(field.type).startswith("bool")]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["5", 5.0, True, -1, [], float("nan"), pytest.param(10**400, id="huge")])
def test_a_wrong_number_is_refused_by_its_name(name, value):
    with pytest.raises(PolicyError, match=rf"policy\.{name} ") as caught:
        ExecutionPolicy(**{name: value})
    assert caught.value.field == name


@pytest.mark.parametrize("name", NUMBERS)
def test_the_least_value_is_allowed_and_one_less_is_not(name):
    least = FIELDS[name].metadata["minimum"]
    assert getattr(ExecutionPolicy(**{name: least}), name) == least
    with pytest.raises(PolicyError, match=f"at least {least}"):
        ExecutionPolicy(**{name: least - 1})


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", [1, 0, "yes", []])
def test_a_flag_is_true_or_false(name, value):
    with pytest.raises(PolicyError) as caught:
        ExecutionPolicy(**{name: value})
    assert caught.value.field == name


@pytest.mark.parametrize("value", [5, "A=1", [("a", "b")], {"A": 1}, {1: "a"}, {"A": None}, {"A=B": "x"}, {"": "x"},
                                   {"A\0": "x"}, {"A": "x\0y"}])  # fmt: skip
def test_an_environment_that_no_process_could_have_is_refused(value):
    with pytest.raises(PolicyError) as caught:
        ExecutionPolicy(environment=value)
    assert caught.value.field == "environment"


@pytest.mark.parametrize(
    "value", ["numpy", 5, [5], ["a b"], ["a-b"], ["a..b"], [""], ["class"], [".a"], ["a\n"], ["é"]]
)
def test_what_is_no_list_of_modules_is_refused(value):
    with pytest.raises(PolicyError) as caught:
        ExecutionPolicy(preload=value)
    assert caught.value.field == "preload"


@pytest.mark.parametrize("value", [(), ("numpy",), ("os.path", "xml.dom.minidom"), ["numpy", "pandas"]])
def test_modules_to_import_ahead_are_kept_in_their_order(value):
    assert ExecutionPolicy(preload=value).preload == tuple(value)


@pytest.mark.parametrize(
    "value",
    ["/a:/mnt/b", 5, [5], ["/a"], [":/mnt/b"], ["/a:mnt/b"], ["/a:/mnt/../b"], ["/a:/mnt/b/"], ["/a:/mnt//b"], [{}],
     [{"source": "/a"}], [{"source": "/a", "target": "/mnt/b", "mode": "rw"}], [{"source": "", "target": "/mnt/b"}],
     [{"source": "/a", "target": "/mnt/b", "writable": 1}], [{"source": 5, "target": "/mnt/b"}], ["/a\0:/mnt/b"],
     ["/a:/mnt/b", "/c:/mnt/b"], ["/a:/mnt/b", "/c:/mnt/b/d"], ["/a:/mnt/b/c", "/a:/mnt"]],
    ids=repr,
)  # fmt: skip
def test_mounts_that_cannot_be_meant_are_refused(value):
    with pytest.raises(PolicyError) as caught:
        ExecutionPolicy(mounts=value)
    assert caught.value.field == "mounts"


@pytest.mark.parametrize(
    ("value", "mount"),
    [("/a:/mnt/b", Mount("/a", "/mnt/b")), ("/a:b:/mnt/b:rw", Mount("/a:b", "/mnt/b", writable=True)),
     ("/a:/mnt/b:ro", Mount("/a", "/mnt/b")), (Mount("/a", "/mnt/b"), Mount("/a", "/mnt/b")),
     ({"source": "/a", "target": "/mnt/b", "writable": True}, Mount("/a", "/mnt/b", writable=True))],
    ids=str,
)  # fmt: skip
def test_a_mount_may_be_given_in_several_ways(value, mount):
    assert ExecutionPolicy().replace(mounts=[value]).mounts == (mount,)


def test_the_source_of_a_mount_is_where_it_is_when_the_policy_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    policy = ExecutionPolicy().replace(mounts=["data:/mnt/data", "~/x:/mnt/x"])
    monkeypatch.chdir("/")
    assert [mount.source for mount in policy.mounts] == [f"{tmp_path}/data", "/home/me/x"]


@pytest.mark.parametrize("value", ["sealed", "SEALED", " Sealed ", 3, Isolation.SEALED])
def test_a_tier_may_be_given_in_several_ways(value):
    assert ExecutionPolicy(minimum_isolation=value).minimum_isolation is Isolation.SEALED


@pytest.mark.parametrize("value", ["fort knox", 99, "", [], 2.5])
def test_a_tier_that_does_not_exist_is_refused_and_the_others_are_named(value):
    with pytest.raises(PolicyError, match="PROCESS, CONFINED, SEALED") as caught:
        ExecutionPolicy(minimum_isolation=value)
    assert caught.value.field == "minimum_isolation"


def test_an_unknown_field_is_refused_with_the_nearest_name():
    with pytest.raises(TypeError, match="unknown policy field 'timeout_sm'; did you mean 'timeout_ms'"):
        ExecutionPolicy().replace(timeout_sm=5)
    with pytest.raises(TypeError, match="known: timeout_ms"):
        ExecutionPolicy().replace(xyzzy=5)


def test_a_policy_cannot_be_changed_but_copied():
    policy = ExecutionPolicy()
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.timeout_ms = 5  # type: ignore[misc]  # that is the test
    assert policy.replace(timeout_ms=5).timeout_ms == 5
    assert policy.timeout_ms == 30_000


def test_a_policy_is_not_changed_through_the_mapping_it_was_given():
    given_mapping = {"A": "1"}
    policy = ExecutionPolicy(environment=given_mapping)
    given_mapping["B"] = "2"
    assert dict(policy.environment) == {"A": "1"}


@pytest.mark.parametrize(
    ("fields", "demands"),
    [
        ({}, ()), ({"fuel_budget": 5}, ("fuel_budget",)), ({"network": False}, ("network",)),
        ({"network": True}, ("network_access",)), ({"deterministic": True}, ("deterministic",)),
        ({"protect_state": True, "fuel_budget": 1}, ("fuel_budget", "protect_state")), ({"timeout_ms": 5}, ()),
        ({"mounts": ["/a:/mnt/b"]}, ("mounts",)), ({"mounts": []}, ()),
    ],
)  # fmt: skip
def test_what_only_some_backends_can_do_is_a_demand(fields, demands):
    assert set(ExecutionPolicy(**fields).demands()) == set(demands)


def test_every_field_is_explained():
    assert [name for name, field in FIELDS.items() if not field.metadata.get("doc")] == []


def allowed(name: str, value: object) -> bool:
    if value is None:
        return "None" in str(FIELDS[name].type)
    return isinstance(value, int) and value >= FIELDS[name].metadata["minimum"]


@given(st.dictionaries(st.sampled_from(NUMBERS), st.integers(-10, 10**12) | st.none() | st.text(max_size=3)))
def test_any_values_make_a_policy_or_an_error_that_names_one_of_them(fields: dict[str, Any]):
    wrong = [name for name, value in fields.items() if not allowed(name, value)]
    if not wrong:
        policy = ExecutionPolicy(**fields)
        assert all(getattr(policy, name) == value for name, value in fields.items())
        return
    with pytest.raises(PolicyError) as caught:
        ExecutionPolicy(**fields)
    assert caught.value.field in wrong
