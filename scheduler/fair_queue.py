"""A queue of rivals served in proportion to their weights: deficit round robin with the rounds computed, not walked.

Each rival has a `turn`: the round in which it may go again, in seconds of service per unit of weight. Serving it moves
its turn by cost / weight; the lowest turn goes next; `round_s` is the highest turn that was ever served, and what a
rival's turn lags behind it is its deficit. To walk a thousand empty rounds until a 60-second debt is paid, or to
compare two numbers, gives the same order; this compares. (Known as start-time fair queueing.)

Who comes back after a pause continues at its own turn, but not further back than `burst_s` of service behind the round:
absence earns no credit beyond that, and costs nothing. With `is_urgent_first` it is `burst_s` of turns: that is more
service for a higher weight, so who weighs more goes first when it comes.

Rivals stand in lanes, so that "the first of those in lanes 0..n" is found without passing over the others. A rival
whose lane was passed over keeps its place among those of its lane, and no more credit than one who was away.

Cost: O(log n) for a change, O(lanes) for a look, amortized.
"""

import heapq
from collections.abc import Collection, Container
from typing import Final

_MOST_AWAY: Final = 1000


class Rival:
    __slots__ = ("credit_s", "lane", "name", "place", "ticket", "turn_s", "weight")

    def __init__(self, name: str, turn_s: float) -> None:
        self.name = name
        self.weight = 1.0
        self.credit_s = 0.0
        """How far behind the round its turn may lie when it comes or is served."""
        self.turn_s = turn_s
        self.lane: int | None = None
        """None: not in the queue."""
        self.place = 0.0
        """The turn under which it stands in its lane's heap."""
        self.ticket = 0
        """Of its one valid entry there; entries with other tickets are leftovers."""


_Entry = tuple[float, int, Rival]
"""Its place, its ticket, and who it is."""


class FairQueue:
    def __init__(self, lanes: int, burst_s: float, *, is_urgent_first: bool = False) -> None:
        self.round_s = 0.0
        self._burst_s = burst_s
        self._is_urgent_first = is_urgent_first
        self._rivals: dict[str, Rival] = {}
        self._lanes: list[list[_Entry]] = [[] for _ in range(lanes)]
        self._last_ticket = 0
        self.standing = 0
        """Those that have entered and not left."""

    def get(self, name: str) -> Rival | None:
        return self._rivals.get(name)

    def rival(self, name: str, weight: float = 1.0) -> Rival:
        """The rival of that name, old or new, with this weight from now on."""
        credit_s = self._burst_s / (1.0 if self._is_urgent_first else weight)
        rival = self._rivals.get(name)
        if rival is None:
            rival = self._rivals[name] = Rival(name, self.round_s - credit_s)
        rival.weight, rival.credit_s = weight, credit_s
        return rival

    def enter(self, rival: Rival, lane: int) -> None:
        """Stand in that lane; again after every change of its turn. Without a change it keeps its place."""
        if rival.lane is None:
            self.standing += 1
            rival.turn_s = max(rival.turn_s, self.round_s - rival.credit_s)
        elif rival.lane == lane and rival.place == rival.turn_s:
            return
        self._last_ticket += 1
        rival.lane, rival.place, rival.ticket = lane, rival.turn_s, self._last_ticket
        heap = self._lanes[lane]
        if len(heap) > 64 and len(heap) > 4 * len(self._rivals):
            heap[:] = [entry for entry in heap if entry[2].ticket == entry[1]]
            heapq.heapify(heap)
        heapq.heappush(heap, (rival.place, rival.ticket, rival))

    def leave(self, rival: Rival) -> None:
        self.standing -= rival.lane is not None
        rival.lane, rival.ticket = None, 0

    def first(self, last_lane: int, but: Collection[str] = ()) -> Rival | None:
        """Whose turn it is among those in lanes 0..last_lane. At equal turns the lower lane goes first.

        Those named in `but` are passed over and keep their place. Cost: theirs on top.
        """
        best, best_turn = None, 0.0
        for heap in self._lanes[: last_lane + 1]:
            if heap and (rival := self._head_but(heap, but) if but else self._head(heap)) is not None:
                turn = max(rival.turn_s, self.round_s - rival.credit_s)
                if best is None or turn < best_turn:
                    best, best_turn = rival, turn
        return best

    def lowest_lane(self) -> int | None:
        for lane, heap in enumerate(self._lanes):
            if heap and self._head(heap) is not None:
                return lane
        return None

    def serve(self, rival: Rival, cost_s: float) -> None:
        """It is served now, and that is likely to cost so much. Follow with `enter` or `leave`."""
        turn = max(rival.turn_s, self.round_s - rival.credit_s)
        self.round_s = max(self.round_s, turn)
        rival.turn_s = turn + cost_s / rival.weight

    def correct(self, rival: Rival, by_s: float) -> None:
        """It cost more (or less) than was charged. Follow with `enter` or `leave`."""
        rival.turn_s += by_s / rival.weight

    def forget_settled(self, but: Container[str]) -> None:
        """Drop those that are away and owe nothing: a newcomer of that name would stand no better.

        Of those that owe something, no more than _MOST_AWAY are remembered, the deepest in debt.
        """
        away = [rival for rival in self._rivals.values() if rival.lane is None and rival.name not in but]
        away.sort(key=lambda rival: rival.turn_s)
        spare = len(away) - _MOST_AWAY
        for n, rival in enumerate(away):
            if n < spare or rival.turn_s <= self.round_s - rival.credit_s:
                del self._rivals[rival.name]

    def clear(self) -> None:
        """Nobody waits and nobody is served: what was owed was owed to no one."""
        self._rivals.clear()
        self.standing = 0
        for heap in self._lanes:
            heap.clear()

    def __len__(self) -> int:
        return len(self._rivals)

    def _head(self, heap: list[_Entry]) -> Rival | None:
        while heap:
            _, ticket, rival = heap[0]
            if rival.ticket == ticket:
                return rival
            heapq.heappop(heap)
        return None

    def _head_but(self, heap: list[_Entry], but: Collection[str]) -> Rival | None:
        passed = []
        while (rival := self._head(heap)) is not None and rival.name in but:
            passed.append(heapq.heappop(heap))
        for entry in passed:
            heapq.heappush(heap, entry)
        return rival
