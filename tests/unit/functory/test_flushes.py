"""Who waits for lines of the journal, and for how long."""

import asyncio

import pytest

from functory.intake.flushes import Flushes
from journal import Position
from store.errors import StoreUnavailable

EARLY, LATE = Position(1, 100, 1), Position(1, 200, 2)


async def test_one_tenant_waits_for_the_reader_and_all_for_the_store() -> None:
    flushes = Flushes()
    one, every = flushes.wait("acme", EARLY), flushes.wait("", EARLY)
    flushes.settle(read=Position(1, 0, 0), passed=LATE)
    assert (one.done(), every.done()) == (True, False)
    assert flushes
    flushes.settle(read=LATE, passed=LATE)
    assert every.done()
    assert not flushes


async def test_who_gave_up_wants_nothing() -> None:
    flushes = Flushes()
    gone, other = flushes.wait("acme", EARLY), flushes.wait("acme", LATE)
    gone.cancel()
    await asyncio.sleep(0)
    assert flushes, "the other waits"
    other.cancel()
    await asyncio.sleep(0)
    assert not flushes
    assert not flushes.want("acme-mail")


async def test_lines_of_who_is_being_flushed_must_go_to_the_store() -> None:
    flushes = Flushes()
    with flushes.of("acme"), flushes.of("acme"):
        assert flushes.want("acme-mail")
        assert not flushes.want("other-mail")
    assert not flushes.want("acme-mail")
    with flushes.of(""):
        assert flushes.want("other-mail")


async def test_all_hear_of_the_trouble() -> None:
    flushes = Flushes()
    waiting = [flushes.wait("acme", EARLY), flushes.wait("", LATE)]
    flushes.fail("it is away")
    for done in waiting:
        with pytest.raises(StoreUnavailable, match="it is away"):
            await done
    assert not flushes
