"""`functory doctor --hostile`: every act against a real daemon is borne, and the neighbour hardly notices."""

import argparse
import asyncio

import pytest

from functory.cli.doctor import add_commands, be_hostile
from functory.errors import InvalidInput
from functory.hostile.act import Through, perform
from functory.hostile.acts import ACTS
from functory.hostile.arena import Arena, open_arena
from functory.hostile.context_acts import busy_threads, hoard_memory, short_turns_long, tiny_new_jobs
from functory.hostile.http_acts import awaited_answers, large_bodies, many_creates, many_types, unread_ids
from tests.support.needs import need_isolation

pytestmark = pytest.mark.slow


@pytest.fixture
def _isolation() -> None:
    need_isolation()


LONG = {
    awaited_answers,
    unread_ids,
    large_bodies,
    many_creates,
    many_types,
    short_turns_long,
    tiny_new_jobs,
    busy_threads,
    hoard_memory,
}
"""They add jobs by the hundred thousand, or wait for long: for the command. Suites beside this one have what they
prove."""


@pytest.mark.usefixtures("_isolation")
async def test_every_act_is_borne() -> None:
    async with open_arena() as arena:
        verdicts = [await perform(act, arena) for act in ACTS if act not in LONG]
        assert arena.daemon.status is None
    assert [(verdict.act, verdict.detail) for verdict in verdicts if not verdict.held] == []
    assert all(verdict.about for verdict in verdicts)
    assert all(verdict.seen.looks > 0 for verdict in verdicts)


@pytest.mark.usefixtures("_isolation")
async def test_an_act_that_gets_through_is_told_and_the_next_one_starts_anew() -> None:
    async def success(arena: Arena) -> str:
        """Do what should not be possible."""
        await arena.run_job("x", "return payload")
        raise Through("it was possible")

    async with open_arena() as arena:
        verdict = await perform(success, arena)
        again = await perform(success, arena)
    assert not verdict.held
    assert (verdict.detail, verdict.about) == ("it was possible", "Do what should not be possible.")
    assert again.detail == verdict.detail


def test_acts_are_chosen_by_name() -> None:
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers())
    assert parser.parse_args(["doctor", "--hostile", "half_frames"]).hostile == ["half_frames"]
    with pytest.raises(InvalidInput, match="known: oversized_line"):
        asyncio.run(be_hostile(["nonsense"], as_json=True))
