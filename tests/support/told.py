"""What clients were told, held against what a restored or moved store has in the end.

Payloads are unique, so that each can be recognised wherever it appears. A submission without an answer may have been
taken or not: its client cannot know.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Told:
    submitted: set[str] = field(default_factory=set)
    acknowledged: dict[str, str] = field(default_factory=dict)
    """Payloads by id."""

    def submit(self, payloads: Iterable[str]) -> None:
        """Before the request is sent."""
        self.submitted.update(payloads)

    def acknowledge(self, ids: Iterable[str], payloads: Iterable[str]) -> None:
        """After its good answer."""
        self.acknowledged.update(zip(ids, payloads, strict=True))

    def check(self, ended: list[tuple[str, str]], promised: Mapping[str, str]) -> None:
        """`ended` are ids and payloads that have an outcome: all that was promised is among them, nothing that nobody
        sent, and nothing twice."""
        payloads = dict(ended)
        assert promised.keys() - payloads.keys() == set(), "promised, and lost"
        wrong = {id_ for id_, payload in ended if self.acknowledged.get(id_, payload) != payload}
        assert not wrong, "acknowledged with another payload"
        assert set(payloads.values()) <= self.submitted, "sent by nobody"
        twice = [payload for payload, count in Counter(payload for _, payload in ended).items() if count > 1]
        assert not twice, "submitted once, and two jobs"
