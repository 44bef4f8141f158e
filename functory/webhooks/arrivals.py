"""What came to the webhooks lately and what became of it: counts, and the last few of each. Of this daemon, in memory.

Whoever posts has no key, and may post at any rate. Ensures: what is kept is bounded, for each webhook and in all; each
request costs the same work, and writes nothing. Refusals drive out no delivery that was taken, and those of one sender
for one reason take one place, however many they are.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeVar, get_args

from functory.webhooks.delivery import as_sent

Taken = Literal["accepted", "repeated", "challenge"]
Reason = Literal[
    "signature_missing",
    "signature_wrong",
    "signature_too_old",
    "token_missing",
    "token_wrong",
    "secret_not_set",
    "method_not_allowed",
    "too_large",
    "too_slow",
    "unreadable",
    "busy",
    "rate_limited",
    "over_quota",
    "tenant_suspended",
    "unavailable",
    "failed",
]
OUTCOMES: Final[Sequence[str]] = (*get_args(Taken), *get_args(Reason))
LAST: Final = 10
"""Deliveries of a webhook that are kept, and as many refusals."""
_MOST_WEBHOOKS: Final = 1000
_MOST_PROVED: Final = 32
"""Senders of a webhook that are known to have proved who they are."""
_MOST_CHARS: Final = 100
_TELL_EVERY_MS: Final = 60_000
_K = TypeVar("_K")
_V = TypeVar("_V")


class Place(NamedTuple):
    """A webhook. since_ms: when its tenant was created, which tells it from an earlier one of its name."""

    tenant: str
    since_ms: int
    name: str


class Arrival(NamedTuple):
    """One request. sender: the network address that it came from. delivery: what names it, as the sender says, and
    perhaps cut; empty if nothing does. size_bytes is None where nobody knows."""

    at_ms: int
    sender: str
    delivery: str
    size_bytes: int | None


class TakenDelivery(NamedTuple):
    arrival: Arrival
    outcome: Taken
    job_id: str


class RefusedDelivery(NamedTuple):
    arrival: Arrival
    """The last one."""
    reason: Reason
    times: int


class Seen(NamedTuple):
    """What came to a webhook. deliveries and refusals: newest first."""

    since_ms: int
    counts: dict[str, int]
    deliveries: list[TakenDelivery]
    refusals: list[RefusedDelivery]


class _Log:
    """Of one webhook."""

    __slots__ = ("counts", "deliveries", "proved", "refusals", "since_ms", "told_ms", "untold")

    def __init__(self, since_ms: int) -> None:
        self.since_ms = since_ms
        self.counts: Counter[str] = Counter()
        self.deliveries: deque[TakenDelivery] = deque(maxlen=LAST)
        self.refusals: OrderedDict[tuple[Reason, str], RefusedDelivery] = OrderedDict()
        self.proved: OrderedDict[str, None] = OrderedDict()
        self.told_ms: int | None = None
        self.untold = 0


class Arrivals:
    def __init__(self, now_ms: int) -> None:
        self._since_ms = now_ms
        """Since when no webhook was forgotten, but for those that were deleted."""
        self._logs: OrderedDict[Place, _Log] = OrderedDict()
        self.totals: dict[str, int] = dict.fromkeys(OUTCOMES, 0)
        """By outcome, of all webhooks."""

    def take(self, place: Place, arrival: Arrival, outcome: Taken, job_id: str = "", *, is_proved: bool) -> None:
        """A delivery that was taken. is_proved: its sender has proved who it is."""
        log = self._count(place, arrival.at_ms, outcome)
        log.deliveries.append(TakenDelivery(_bounded(arrival), outcome, job_id))
        if is_proved and arrival.sender:
            _put_last(log.proved, arrival.sender, None, _MOST_PROVED)

    def refuse(self, place: Place, arrival: Arrival, reason: Reason) -> int:
        """One that was not. Returns how many refusals of the webhook are to be logged now, in one line: 0 for most of
        them, as there is such a line once a minute."""
        log = self._count(place, arrival.at_ms, reason)
        which = (reason, arrival.sender)
        before = log.refusals.get(which)
        refused = RefusedDelivery(_bounded(arrival), reason, before.times + 1 if before else 1)
        _put_last(log.refusals, which, refused, LAST)
        log.untold += 1
        if log.told_ms is not None and abs(arrival.at_ms - log.told_ms) < _TELL_EVERY_MS:
            return 0
        log.told_ms, untold, log.untold = arrival.at_ms, log.untold, 0
        return untold

    def has_proved(self, place: Place, sender: str) -> bool:
        """Whether somebody at this address has proved lately who it is."""
        log = self._logs.get(place)
        return log is not None and sender in log.proved

    def seen(self, place: Place) -> Seen:
        log = self._logs.get(place) or _Log(self._since_ms)
        counts = {outcome: log.counts[outcome] for outcome in OUTCOMES if log.counts[outcome]}
        return Seen(log.since_ms, counts, [*reversed(log.deliveries)], [*reversed(log.refusals.values())])

    def forget(self, place: Place) -> None:
        """After the webhook was deleted."""
        self._logs.pop(place, None)

    def _count(self, place: Place, now_ms: int, outcome: Taken | Reason) -> _Log:
        log = self._logs.get(place) or _Log(self._since_ms)
        if _put_last(self._logs, place, log, _MOST_WEBHOOKS):
            self._since_ms = now_ms
        log.counts[outcome] += 1
        self.totals[outcome] += 1
        return log


def _put_last(where: OrderedDict[_K, _V], key: _K, value: _V, most: int) -> bool:
    """Returns whether the first one had to go."""
    where[key] = value
    where.move_to_end(key)
    if len(where) <= most:
        return False
    where.popitem(last=False)
    return True


def _bounded(arrival: Arrival) -> Arrival:
    """With as much of the text as is kept, which any encoder takes."""
    named = as_sent(arrival.delivery[:_MOST_CHARS]).decode("utf-8", "replace")
    return arrival._replace(delivery=named)
