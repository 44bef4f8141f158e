"""The statements of Query: what is understood, and what is refused with a reason."""

import pytest

from functory.bedrock.refusals import Refusal
from functory.bedrock.select import ALL, Condition, Select, parse_select


@pytest.mark.parametrize(
    ("text", "select"),
    [
        ("select * from jobs;", Select(ALL)),
        ("SELECT * FROM JOBS", Select(ALL)),
        ("  select\tjobid , STATE from jobs ;  ", Select(("jobID", "state"))),
        ("select count(*) from jobs", Select(())),
        (
            "select name from jobs where state = 'QUEUED' and jobID >= 3 limit 5;",
            Select(("name",), (Condition("state", "=", ("QUEUED",)), Condition("jobID", ">=", (3,))), limit=5),
        ),
        (
            "select data from jobs where name glob 'a*' order by nextRun desc",
            Select(("data",), (Condition("name", "glob", ("a*",)),), "nextRun", is_descending=True),
        ),
        (
            "select jobID from jobs where name in ('a', 'it''s') order by name asc limit 0",
            Select(("jobID",), (Condition("name", "in", ("a", "it's")),), "name", limit=0),
        ),
    ],
)
def test_what_is_understood(text: str, select: Select) -> None:
    assert parse_select(text) == select


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not understood near 'its end'"),
        ("drop table jobs", "not understood near 'drop'"),
        ("select * from jobs; drop table jobs", "not understood near 'drop'"),
        ("select * from tenants", "not understood near 'tenants'"),
        ("select secret from jobs", "jobs have no column 'secret'"),
        ("select * from jobs where state = QUEUED", "compared with a text in quotes"),
        ("select * from jobs where jobID = 'x'", "not understood near"),
        ("select * from jobs where jobID glob 1", "not understood near 'glob'"),
        ("select * from jobs where state = 'a' or state = 'b'", "not understood near 'or'"),
        ("select * from jobs where data = '{}'", "data cannot be filtered"),
        ("select * from jobs where name = 'open", "not understood near"),
        ("select * from jobs limit -1", "not understood near '-1'"),
        ("select * from jobs -- no", "not understood near '-- no'"),
        ("select " + "jobID," * 20 + "jobID from jobs", "not understood"),
        ("select * from jobs where jobID in (" + "1," * 200 + "1)", "not understood"),
        ("select * from jobs where " + "jobID = 1 and " * 40 + "jobID = 1", "not understood"),
        (
            "select * from jobs where name glob '" + "*" * 256 + "'",
            "a pattern has at most 255 characters, and this one has 256",
        ),
        ("x" * 5000, "longer than 4000 characters"),
    ],
)
def test_what_is_not_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(Refusal, match="query") as refused:
        parse_select(text)
    assert reason in str(refused.value)
    assert refused.value.status == 402


@pytest.mark.parametrize(
    ("condition", "value", "holds"),
    [
        (Condition("jobID", "<", (3,)), 2, True),
        (Condition("jobID", "<>", (3,)), 3, False),
        (Condition("name", "glob", ("Foo*",)), "Foobar", True),
        (Condition("name", "glob", ("foo*",)), "Foobar", False),
        (Condition("nextRun", ">", ("2026-01-01",)), "2026-01-01 00:00:01", True),
        (Condition("state", "in", ("QUEUED", "PAUSED")), "RUNNING", False),
    ],
)
def test_a_condition_holds_as_in_sql(condition: Condition, value: int | str, *, holds: bool) -> None:
    assert condition.test()(value) is holds


def test_what_a_statement_fixes_is_all_that_is_looked_at() -> None:
    select = parse_select("select * from jobs where state in ('QUEUED', 'PAUSED') and state = 'PAUSED' and jobID < 5")
    assert select.fixed("state") == ("PAUSED",)
    assert select.fixed("jobID") is None
