"""The pages of alert rules: what they show, and what their forms do."""

import re
from html import unescape

import pytest

from functory.alerts.terms import Terms
from functory.operations.alerts import get_alert, list_alerts
from tests.support.pages import Visitor, visitor
from tests.support.web import Site

PAGE = "/ui/t/acme/alerts"
NEW = {"name": "mail-fails", "type": "mail*", "notify": "tell", "kind": "failures", "number": "5", "time": "10m"}
NEW |= {"for": "0s", "calm": "1m", "at_least": "1"}
INPUT = re.compile(r'<input id="\w+" name="(\w+)"[^>]*? value="([^"]*)"')
CHOSEN = re.compile(r'<option value="(\w+)" selected>')


async def form_of(visit: Visitor, path: str) -> dict[str, str]:
    """As a browser would send it."""
    text = (await visit.get(path)).text
    fields = {name: unescape(value) for name, value in INPUT.findall(text)}
    return fields | {"kind": CHOSEN.findall(text)[0]}


@pytest.mark.parametrize(
    ("changes", "terms"),
    [
        ({}, {"when": "failures", "more_than": 5, "window_s": 600}),
        (
            {"kind": "share", "number": "12.5", "at_least": "20"},
            {"when": "failures", "share_above": 0.125, "at_least": 20, "window_s": 600},
        ),
        ({"kind": "waiting", "for": "2m"}, {"when": "waiting", "longer_than_s": 600, "for_s": 120}),
        ({"kind": "backlog", "number": "10000"}, {"when": "backlog", "more_than": 10_000}),
        ({"kind": "silent", "time": "26h"}, {"when": "silent", "window_s": 93_600}),
        ({"kind": "quota", "type": "", "number": "80"}, {"type": "*", "when": "quota", "share_above": 0.8}),
        ({"kind": "no_worker", "calm": "1h"}, {"when": "no_worker", "longer_than_s": 600, "calm_s": 3600}),
    ],
)
async def test_the_form_makes_a_rule_and_saving_it_again_changes_nothing(
    site: Site, changes: dict[str, str], terms: dict[str, object]
) -> None:
    async with visitor(site, "acme") as visit:
        assert (await visit.post(PAGE, NEW | changes)).status == 303
        made = (await get_alert(site.service, "acme", "mail-fails")).terms
        expected = Terms(**{"type": "mail*", "notify": "tell", "since_ms": made.since_ms, **terms})  # type: ignore[arg-type]
        assert made == expected
        form = await form_of(visit, f"{PAGE}/mail-fails")
        assert (await visit.post(f"{PAGE}/mail-fails", form)).status == 303
        assert (await get_alert(site.service, "acme", "mail-fails")).terms == made
        assert "mail-fails" in (await visit.get(PAGE)).text


async def test_a_rule_is_muted_tested_and_deleted(site: Site) -> None:
    async with visitor(site, "acme") as visit:
        await visit.post(PAGE, NEW)
        await visit.post(f"{PAGE}/mail-fails/mute", {"mute": "8h"})
        assert "muted until" in (await visit.get(f"{PAGE}/mail-fails")).text
        assert ">muted<" in (await visit.get(PAGE)).text
        await visit.post(f"{PAGE}/mail-fails/mute", {"mute": "end"})
        assert "muted until" not in (await visit.get(f"{PAGE}/mail-fails")).text
        sent = await visit.post(f"{PAGE}/mail-fails/test")
        assert "TEST mail-fails" in (await visit.get(sent.location)).text
        await visit.post(f"{PAGE}/mail-fails/delete")
        assert "No alerts yet" in (await visit.get(PAGE)).text
        assert (await visit.get(f"{PAGE}/mail-fails")).status == 404


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"time": "soon"}, "The time: "),
        ({"time": "5s"}, "The time in seconds must be"),
        ({"kind": "quota", "number": "80"}, "A quota is that of all types: type must be *"),
        ({"kind": "no_worker", "time": "10s"}, "An alert for no_worker takes at least 30 seconds, not 10"),
        ({"number": "many"}, "N must be"),
        ({"kind": "share", "number": "many"}, "N is a number of percent"),
        ({"kind": "rain"}, "Choose when it fires"),
        ({"type": "a b"}, "&#39;a b&#39; is not a type"),
        ({"notify": "tell*"}, "Notify "),
        ({"calm": "0s"}, "How long it must not hold"),
    ],
)
async def test_a_refused_form_comes_back_with_the_reason(site: Site, changes: dict[str, str], reason: str) -> None:
    async with visitor(site, "acme") as visit:
        page = await visit.post(PAGE, NEW | changes)
        assert page.status == 422
        assert f'id="problem"><p><bdi>{reason}' in page.text, page.text
        assert 'value="mail-fails"' in page.text
        assert await list_alerts(site.service, "acme") == []
