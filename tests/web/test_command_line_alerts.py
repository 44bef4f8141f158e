"""`functory alert`: what its options mean, and what it prints."""

import json

import pytest

from functory.cli.answers import moment
from functory.cli.main import make_parser
from tests.support.terminal import Terminal
from tests.support.web import T0, Site

SET = ("alert", "set", "rule", "--type", "mail*", "--notify", "tell")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--failures 10", {"when": "failures", "more_than": 10, "window_s": 600}),
        ("--failures 0 --window 1d", {"when": "failures", "more_than": 0, "window_s": 86_400}),
        (
            "--failure-share 0.2 --at-least 50 --window 1h",
            {"when": "failures", "share_above": 0.2, "at_least": 50, "window_s": 3600},
        ),
        ("--waiting 5m --for 2m --calm 10m", {"when": "waiting", "longer_than_s": 300, "for_s": 120, "calm_s": 600}),
        ("--backlog 10000", {"when": "backlog", "more_than": 10_000}),
        ("--silent 26h", {"when": "silent", "window_s": 93_600}),
        ("--no-worker 10m", {"when": "no_worker", "longer_than_s": 600}),
    ],
)
async def test_options_say_when_it_fires(site: Site, terminal: Terminal, words: str, said: dict[str, object]) -> None:
    assert "rule is set." in await terminal.run(*SET, *words.split())
    shown = (await site.get("/acme/alert/rule")).json
    assert {name: shown[name] for name in said} == said
    assert (shown["for_s"], shown["calm_s"]) == (said.get("for_s", 0), said.get("calm_s", 60))


async def test_a_rule_for_a_quota_needs_no_type_and_every_other_does(site: Site, terminal: Terminal) -> None:
    await terminal.run("alert", "set", "full", "--notify", "tell", "--quota", "0.8")
    shown = (await site.get("/acme/alert/full")).json
    assert (shown["type"], shown["when"], shown["share_above"]) == ("*", "quota", 0.8)
    assert "more than 0.8 of a quota is used" in await terminal.run("alert", "list")
    refused = await terminal.run("alert", "set", "slow", "--notify", "tell", "--backlog", "5", status=2)
    assert "--type is needed" in refused
    assert "type must be *" in await terminal.run(*SET, "--quota", "0.8", status=2)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "one of the arguments"),
        ("--backlog 1 --waiting 5m", "not allowed with argument"),
        ("--waiting soon", "'soon' is not a duration"),
    ],
)
def test_a_rule_has_one_condition(words: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_parser(["alerts"]).parse_args([*SET, *words.split()])
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--backlog 1 --window 5m", "--window is for"),
        ("--failures 1 --at-least 5", "--at-least is for"),
        ("--failures 1 --window 5s", "window_s must be"),
    ],
)
async def test_what_does_not_go_together_is_said(terminal: Terminal, words: str, says: str) -> None:
    assert says in await terminal.run(*SET, *words.split(), status=2)


async def test_rules_are_shown_as_they_stand(site: Site, terminal: Terminal) -> None:
    assert "No alerts." in await terminal.run("alert", "list")
    assert "Type tell has no handler yet" in await terminal.run(*SET, "--failures", "2")
    await site.call("PUT", "/acme/handler/tell?lang=sh", data=b"true")
    assert await terminal.run(*SET, "--failures", "3") == "rule is changed.\n"
    row = (await terminal.run("alert", "list")).splitlines()[-1]
    assert row.split()[:2] == ["rule", "ok"]
    assert "more than 3 failures in 10 minutes" in row
    muted = await terminal.run("alert", "mute", "rule", "1h")
    assert muted == f"rule is muted until {moment(T0 + 3_600_000)}.\n"
    assert "ok (muted)" in await terminal.run("alert", "list")
    assert f"muted until {moment(T0 + 3_600_000)}" in await terminal.run("alert", "get", "rule")
    assert await terminal.run("alert", "mute", "rule", "0s") == "rule is not muted any more.\n"
    job_id = json.loads(await terminal.run("alert", "test", "rule", "--json"))["id"]
    assert "TEST rule" in (await site.get(f"/acme/job/{job_id}")).json["payload"]
    assert await terminal.run("alert", "rm", "rule") == "rule is deleted.\n"
    assert "has no alert rule" in await terminal.run("alert", "get", "rule", status=4)


async def test_the_figures_of_a_type_are_those_of_a_tenant(terminal: Terminal) -> None:
    assert "use --tenant" in await terminal.run("metrics", "--type", "x", who="operator", status=2)
