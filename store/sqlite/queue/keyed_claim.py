"""Claiming jobs with a key: of open turns, the one that has used the least time first.

Ensures: no more jobs of a turn are taken than its cap leaves, by any claim: the claim's transaction counts those that
run. The cost is that of the jobs taken and of turns that something changed since they were last looked at.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from store.claim_rules import OF_CLAIMS, TURN_WAIT_MS
from store.sqlite.file.writer import Tx
from store.sqlite.queue.rates import Rates
from store.sqlite.queue.taking import Room, Taken, delivered, lock
from store.sqlite.queue.token_waits import note_waits, open_for_tokens
from store.sqlite.queue.turns import (
    Rest,
    Turn,
    first_jobs,
    next_due_ms,
    open_turns,
    places_left,
    retried,
    settle,
    wake,
)
from store.values.claims import Claim

_LANE: Final = itemgetter(-1)
_MOST_LOOKS: Final = 200
"""Turns beyond the limit that one claim looks at in vain; the next one goes on from there."""


def take_turns(tx: Tx, number: int, rates: Rates, room: Room, claim: Claim) -> list[Taken]:
    """Jobs with a key, locked."""
    taken: list[Taken] = []
    open_for_tokens(tx, number, rates, claim)
    wake(tx, number, claim.now_ms)
    looks = claim.limit + _MOST_LOOKS
    while room.jobs > 0 and looks > 0 and (turns := open_turns(tx, number, room.jobs)):
        looks -= len(turns)
        one_round = _Round(tx, rates, room, claim, max(1, room.jobs // len(turns)))
        for turn in turns:
            one_round.look(turn)
            if room.jobs == 0:
                break
        mine = _by_lane(tx, one_round.rows, claim)
        lock(tx, mine, claim)
        emptied = [Rest(turn, jobs, open=False, at_ms=next_due_ms(tx, turn)) for turn, jobs in one_round.emptied]
        settle(tx, number, one_round.served, one_round.rests + emptied)
        note_waits(tx, number, rates, {rest.domain for rest in one_round.rests if rest.domain is not None})
        taken += mine
    return taken


class _Round:
    """One look at each of some open turns, taking up to `share` jobs of each."""

    def __init__(self, tx: Tx, rates: Rates, room: Room, claim: Claim, share: int) -> None:
        self._tx = tx
        self._rates = rates
        self._room = room
        self._claim = claim
        self._share = share
        self.rows: list[Sequence[Any]] = []
        self.served: list[Turn] = []
        self.rests: list[Rest] = []
        self.emptied: list[tuple[int, int]] = []
        """Turns of which all that was due is taken, and how much that was."""

    def look(self, turn: Turn) -> None:
        now_ms, cap = self._claim.now_ms, self._claim.max_per_key
        places = places_left(self._tx, turn.turn, cap, self._claim.limit + 1)
        wanted = min(places, self._share, self._room.jobs)
        if places <= 0:
            self.rests.append(Rest(turn.turn, 0, open=False, at_ms=now_ms + TURN_WAIT_MS))
            return
        first = retried(self._tx, turn.turn) if cap == 1 else None
        if first is None:
            rows = first_jobs(self._tx, turn.turn, now_ms, wanted)
        elif first[0] > now_ms:
            self.rests.append(Rest(turn.turn, 0, open=False, at_ms=first[0]))
            return
        else:
            rows = [first]
        taken, without_token = self._take(rows)
        self.rows += taken
        if taken:
            self.served.append(turn)
        if without_token is not None:
            self.rests.append(Rest(turn.turn, len(taken), open=False, at_ms=None, domain=without_token))
        elif cap is not None and len(taken) == places:
            self.rests.append(Rest(turn.turn, len(taken), open=False, at_ms=now_ms + TURN_WAIT_MS))
        elif len(taken) == len(rows) < wanted:
            self.emptied.append((turn.turn, len(taken)))
        else:
            self.rests.append(Rest(turn.turn, len(taken), open=True, at_ms=None))

    def _take(self, rows: Iterable[Sequence[Any]]) -> tuple[list[Sequence[Any]], str | None]:
        """Those for which there is a token and room; and what the next waits for, if a token is what is missing."""
        taken: list[Sequence[Any]] = []
        for row in rows:
            own = self._tx.catalog.lane(row[-1]).domain
            domain = own or self._claim.domain
            if not self._rates.allows(domain):
                return taken, own or OF_CLAIMS + domain
            if not self._room.take([row[4]]):
                break
            self._rates.take(domain)
            taken.append(row)
        return taken, None


def _by_lane(tx: Tx, rows: Iterable[Sequence[Any]], claim: Claim) -> list[Taken]:
    """In the order in which they were taken: a change of lane begins a new group."""
    return [delivered(tx, tx.catalog.lane(lane), list(mine), claim) for lane, mine in groupby(rows, _LANE)]
