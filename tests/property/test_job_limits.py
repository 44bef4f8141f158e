"""The limits of a job in its options: what is written is read, and nothing that a tenant writes is taken for it."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handlers.validation import OPTIONS
from vocabulary.job_limits import NO_LIMITS, RANGES, JobLimits, limits_of, trouble_with, with_limits

LIMITS = st.builds(JobLimits, **{name: st.none() | st.integers(*between) for name, between in RANGES.items()})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from([*RANGES, "limits", "timeout_s", "MAX_ATTEMPTS", ""]) | st.text(max_size=8)
NUMBERS = st.sampled_from([0, 1, -1, 1000, 1001, 86_400_001, 10**30, True, 1.0, "3", None]) | JSON
OBJECTS = st.dictionaries(NAMES, NUMBERS | st.dictionaries(NAMES, NUMBERS, max_size=3), max_size=4)


def as_text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def test_they_are_those_of_a_handler() -> None:
    assert tuple(RANGES) == JobLimits._fields
    assert {name: OPTIONS[name] for name in RANGES} == RANGES


@given(LIMITS, st.dictionaries(st.text(max_size=8).filter(lambda name: name != "limits"), JSON, max_size=3))
def test_what_is_written_is_read_beside_whatever_the_tenant_says(limits: JobLimits, others: dict[str, Any]) -> None:
    text = with_limits(as_text(others) if others else "", limits)
    assert limits_of(text) == limits
    said = {"limits": limits.said()} if limits.said() else {}
    assert as_text(json.loads(text) if text else {}) == as_text(said | others)


def test_no_limits_are_never_written() -> None:
    assert with_limits("", NO_LIMITS) == ""
    assert with_limits('{"a":1}', NO_LIMITS) == '{"a":1}'
    assert with_limits("{}", JobLimits(3)) == '{"limits":{"max_attempts":3}}'


@given(OBJECTS)
@example({"limits": {}})
@example({"limits": {"max_attempts": True}})
@example({"limits": {"max_attempts": 1001}})
@example({"limits": {"max_attempts": 3, "timeout_s": 3}})
@example({"limits": {"limits": {"max_attempts": 3}}})
@example({"limits": [{"max_attempts": 3}]})
def test_of_a_tenants_own_object_only_exactly_such_limits_are_read(options: dict[str, Any]) -> None:
    found = limits_of(as_text(options)).said()
    if found:
        assert as_text(options["limits"]) == as_text(found)
        assert all(type(value) is int and not trouble_with(name, value) for name, value in found.items())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "limits",
        '{"limits":{}}',
        '{"limits":{"max_attempts":0}}',
        '{"limits":{"max_attempts":-1}}',
        '{"limits":{"max_attempts":01}}',
        '{"limits":{"max_attempts":1001}}',
        '{"limits":{"max_attempts":3.0}}',
        '{"limits":{"max_attempts":"3"}}',
        '{"limits":{"max_attempts":٣}}',
        '{"limits":{"retry_base_ms":86400001}}',
        f'{{"limits":{{"max_wait_s":{"9" * 5000}}}}}',
        '{"limits":{"max_attempts":3,"max_attempts":4}}',
        '{"limits":{"max_attempts":3,"other":4}}',
        '{"limits":{"max_attempts":3,}}',
        '{"limits":{"max_attempts":3}',
        '{"limits":{"max_attempts":3}}}',
        '{"limits":{"max_attempts":3}}\n',
        '{"limits":{"max_attempts":3}}x',
        '[{"limits":{"max_attempts":3}}]',
        '{"a":{"limits":{"max_attempts":3}}}',
        '{"a":1,"limits":{"max_attempts":3}}',
        '{"a":{"limits":{"max_attempts":3},"b":1}}',
        '[{"limits":{"max_attempts":3},"b":1}]',
        '{"limits":{"max_attempts":3};"a":1}',
    ],
)
def test_other_text_limits_nothing(text: str) -> None:
    assert limits_of(text) is NO_LIMITS


@given(st.text(max_size=40))
def test_any_text_can_be_looked_at(text: str) -> None:
    for options in (text, '{"limits":{' + text, '{"limits":{"max_attempts":3' + text):
        assert all(not trouble_with(name, value) for name, value in limits_of(options).said().items())


@pytest.mark.parametrize("value", [0, -1, 1001, True, 1.0, float("nan"), "3", "3" * 999, [], {}, None])
def test_what_is_no_such_number_is_said_in_few_words(value: object) -> None:
    told = trouble_with("max_attempts", value)
    assert told.startswith("must be a whole number between 1 and 1000, not ")
    assert len(told) < 100
    assert trouble_with("max_attempts", 10**5000) == "must be a whole number between 1 and 1000, not a longer one"
    assert [trouble_with("max_attempts", good) for good in (1, 1000)] == ["", ""]
