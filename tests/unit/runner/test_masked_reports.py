"""What jobs left is masked before it is passed on: in order, and what is large beside the event loop."""

import asyncio
import threading
from typing import Any

from runner.flow import Flow
from runner.launch import Level
from runner.masking import MASK, MaskedReports, Masker, SearchTurns
from runner.outcome import Stopped
from vocabulary.new_job import NewJob


def stopped(result: bytes = b"", **more: Any) -> Stopped:
    one = Stopped("id", "ok", 200, result, b"", 1.0, (), Level.L0)
    return one._replace(**more)


async def test_large_results_are_searched_beside_the_loop_in_their_order() -> None:
    seen: list[Stopped] = []
    reports = MaskedReports(seen.extend, 1 << 20, SearchTurns(), Flow(), "acme")
    reports.masker = Masker(["sesame-open"])
    large = b"sesame-open" * 10_000
    reports.put([stopped(b"x" * 17_000, id="0")])
    assert seen == []
    await reports.finish()
    assert seen.pop().id == "0"
    reports.put([stopped(large, id="1")])
    reports.put([stopped(b"sesame-open", id="2")])
    assert seen == []
    await reports.finish()
    assert [one.id for one in seen] == ["1", "2"]
    assert [one.result for one in seen] == [MASK * 10_000, MASK]
    reports.put([stopped(b"x" * 600_000, id="3")])
    reports.put([stopped(b"x" * 600_000, id="4")])
    await reports.finish()
    assert [one.exitcode for one in seen[2:]] == [200, 413]


async def test_types_of_new_jobs_count_as_text() -> None:
    seen: list[Stopped] = []
    reports = MaskedReports(seen.extend, 1 << 20, SearchTurns(), Flow(), "acme")
    reports.masker = Masker(["sesame-open"])
    few = tuple(NewJob(f"t{number}", b"") for number in range(50))
    reports.put([stopped(new_jobs=few)])
    assert seen.pop().new_jobs == few
    long = tuple(NewJob(f"t{number:0126d}", b"") for number in range(50))
    reports.put([stopped(new_jobs=long)])
    assert seen == []
    await reports.finish()
    assert seen.pop().new_jobs == long


async def test_what_waits_to_be_searched_is_held() -> None:
    """So that its context is not read from: it may make outcomes faster than they are searched."""
    flow, seen = Flow(), list[Stopped]()
    reports = MaskedReports(seen.extend, 1 << 20, SearchTurns(), flow, "acme")
    reports.masker = Masker(["sesame-open"])
    reports.put([stopped(b"x" * 17_000, new_jobs=(NewJob("a", b""),) * 1000) for _ in range(3)])
    assert flow.total_bytes > 3 * (17_000 + 1000 * 200)
    await reports.finish()
    assert len(seen) == 3
    assert flow.total_bytes == 0


async def test_one_thread_searches_at_a_time_and_small_jobs_have_their_turn_between_those_of_another() -> None:
    """Each other thread would keep the interpreter from the event loop for as long again."""
    went_on, order = threading.Event(), list[str]()

    class Slow(Masker):
        def hide_in(self, stopped: Stopped) -> Stopped:
            order.append(f"begin {stopped.id}")
            assert went_on.wait(10)
            order.append(f"end {stopped.id}")
            return stopped

    class Turns(SearchTurns):
        asked = 0

        def of(self, size_bytes: int) -> asyncio.Lock:
            self.asked += 1
            if self.asked == 2:
                went_on.set()
            return super().of(size_bytes)

    turns, made = Turns(), list[MaskedReports]()
    for name, count in (("a", 2), ("b", 1)):
        reports = MaskedReports(lambda _: None, 1 << 24, turns, Flow(), name)
        reports.masker = Slow([])
        reports.put([stopped(b"x" * 100_000, id=f"{name}{number}") for number in range(count)])
        made.append(reports)
    await asyncio.gather(*(reports.finish() for reports in made))
    assert order == [f"{what} {name}" for name in ("a0", "b0", "a1") for what in ("begin", "end")]


async def test_short_texts_do_not_wait_until_a_long_one_was_searched() -> None:
    went_on, seen = threading.Event(), list[Stopped]()

    class Slow(Masker):
        def hide_in(self, stopped: Stopped) -> Stopped:
            assert went_on.wait(10)
            return stopped

    turns = SearchTurns()
    long = MaskedReports(seen.extend, 1 << 24, turns, Flow(), "a")
    long.masker = Slow([])
    long.put([stopped(b"x" * 1_000_000, id="long")])
    short = MaskedReports(seen.extend, 1 << 24, turns, Flow(), "b")
    short.masker = Masker(["sesame-open"])
    short.put([stopped(b"x" * 100_000, id="short")])
    await short.finish()
    went_on.set()
    await long.finish()
    assert [one.id for one in seen] == ["short", "long"]
