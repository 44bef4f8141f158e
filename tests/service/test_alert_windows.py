"""Rules about many windows of time: each question is asked once, and few answers are in memory at a time."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from weakref import WeakSet

import pytest

from functory.alerts.judgement import Moment
from functory.alerts.terms import Terms
from functory.operations.alert_looks import look_at_alerts
from functory.operations.alerts import put_alert
from functory.operations.keyring import principal_of
from store.base import Code
from store.values.scoreboard import Span
from tests.support.web import open_site


class Counts(dict[str, int]):
    """One that can be counted while somebody keeps it."""

    __hash__ = object.__hash__  # type: ignore[assignment]


async def test_the_figures_of_all_windows_are_never_in_memory_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty rules about five thousand types would be some hundred megabytes."""
    async with open_site(tmp_path) as site:
        who = await principal_of(site.service, "acme", "test", frozenset())
        assert who is not None
        for number in range(48):
            kind = {"when": "silent"} if number % 3 == 0 else {"when": "failures", "share_above": 0.5}
            terms = Terms(type="*", notify="tell", window_s=600 * (number % 12 + 1), **kind)
            await put_alert(site.service, who, f"rule{number}", terms)
        asked = Counter[tuple[frozenset[Code], Span]]()
        kept: WeakSet[Counts] = WeakSet()
        most = 0

        async def counted(_tenant: str, codes: frozenset[Code], spans: Sequence[Span]) -> dict[str, int]:
            nonlocal most
            asked[codes, spans[0]] += 1
            counts = Counts()
            kept.add(counts)
            most = max(most, len(kept))
            return counts

        monkeypatch.setattr(site.store, "count_by_type", counted)
        await look_at_alerts(site.service, "acme", Moment(site.clock.now_ms()))
    assert len({span for _, span in asked}) == 12
    assert set(asked.values()) == {1}, "each question once, whatever asks it"
    assert most <= 3, "what ended, failed, and ended ok in one window"
