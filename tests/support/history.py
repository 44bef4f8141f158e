"""A checker in the manner of Jepsen's total-queue: what a client outside was told, held against what was recorded.

Every acknowledged job must have ended, once; nothing may have ended that nobody submitted. A submission without an
answer is free to have been taken or not, because its client cannot know.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class Ended(NamedTuple):
    """A job that was found ended."""

    id: str
    payload: str


class Verdict(NamedTuple):
    lost: frozenset[str]
    """Acknowledged, and no outcome."""
    unexpected: frozenset[str]
    """An outcome for what nobody submitted, or acknowledged with another payload."""
    doubled: frozenset[str]
    """Payloads that ended as more than one job, though each was submitted once."""
    recovered: int
    """Ended although their submission was never answered: allowed."""


@dataclass(slots=True)
class History:
    """Payloads are unique, so that each can be recognised wherever it appears."""

    submitted: set[str] = field(default_factory=set)
    acknowledged: dict[str, str] = field(default_factory=dict)

    def submit(self, payloads: Iterable[str]) -> None:
        """Before the request is sent."""
        for payload in payloads:
            assert payload not in self.submitted, f"{payload} is submitted twice: the checker could not tell them apart"
            self.submitted.add(payload)

    def acknowledge(self, ids: Iterable[str], payloads: Iterable[str]) -> None:
        """After its good answer."""
        self.acknowledged.update(zip(ids, payloads, strict=True))

    def verdict(self, ended: Iterable[Ended]) -> Verdict:
        rows = list(ended)
        payload_of = dict(rows)
        counts = Counter(row.payload for row in rows)
        return Verdict(
            lost=frozenset(self.acknowledged.keys() - payload_of.keys()),
            unexpected=frozenset(
                row.id
                for row in rows
                if row.payload not in self.submitted or self.acknowledged.get(row.id, row.payload) != row.payload
            ),
            doubled=frozenset(payload for payload, count in counts.items() if count > 1),
            recovered=len(payload_of.keys() - self.acknowledged.keys()),
        )
