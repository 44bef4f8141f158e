"""The ledger against a plain model: each line is always in one place, goes to one reader at a time, and in order."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from journal.cursor import Position
from journal.ledger import Ledger, Reservation, Span

FOREVER = 1e9


def at(line: int) -> Position:
    return Position(1, line, 0)


class LedgerMachine(RuleBasedStateMachine):
    """Lines are numbered; line n lies between at(n) and at(n + 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(at(0))
        self.now = 0.0
        self.open: dict[Reservation, tuple[set[int], float]] = {}
        self.done: set[int] = set()
        self.written = 0

    @rule(lines=st.integers(1, 20))
    def write(self, lines: int) -> None:
        self.written += lines

    @rule(lines=st.integers(1, 10), timeout=st.integers(1, 20))
    def reserve(self, lines: int, timeout: int) -> None:
        free = [n for n in range(self.written) if n not in self.done and not self.is_held(n)]
        offered = self.ledger.begin()
        begin = offered.start.offset
        end = min(begin + lines, self.written, offered.end.offset if offered.end.segment == 1 else self.written)
        reservation = self.ledger.complete(Span(at(begin), at(end), end - begin), self.now + timeout)
        if not free:
            assert reservation is None
            return
        assert reservation is not None
        got = list(range(begin, end))
        assert got == free[: len(got)], "the oldest free lines come first"
        self.open[reservation] = (set(got), self.now + timeout)

    @rule()
    def fail_to_load(self) -> None:
        before = self.ledger.read_point
        self.ledger.begin()
        assert self.ledger.read_point == before
        self.ledger.abort()

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        reservation = data.draw(st.sampled_from(list(self.open)))
        self.ledger.finish(reservation)
        self.done |= self.open.pop(reservation)[0]

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        reservation = data.draw(st.sampled_from(list(self.open)))
        self.ledger.give_back(reservation)
        del self.open[reservation]

    @rule(seconds=st.integers(1, 10))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        lapsed = set(self.ledger.expire(self.now))
        assert lapsed == {reservation for reservation, (_, deadline) in self.open.items() if deadline <= self.now}
        for reservation in lapsed:
            del self.open[reservation]

    @invariant()
    def the_read_point_is_the_first_line_not_done(self) -> None:
        unfinished = [n for n in range(self.ledger.frontier.offset) if n not in self.done]
        expected = unfinished[0] if unfinished else self.ledger.frontier.offset
        assert self.ledger.read_point == at(expected)

    @invariant()
    def the_next_deadline_is_the_earliest(self) -> None:
        assert self.ledger.next_deadline() == min((deadline for _, deadline in self.open.values()), default=None)

    def is_held(self, line: int) -> bool:
        return any(line in lines for lines, _ in self.open.values())


TestLedger = LedgerMachine.TestCase
