"""A writer under load is killed at random times: every id that it printed is there after the restart."""

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from journal import Journal

KILLS = 50


def write_until_killed(directory: Path, acknowledgements: int) -> dict[str, bytes]:
    """Start the writer, let it acknowledge some lines, kill it in full flight; what it acknowledged."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.journal_writer", directory, "a7"], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        printed = [writer.stdout.readline() for _ in range(acknowledgements)]
        writer.kill()
        printed += writer.stdout.readlines()
    pairs = [line.split() for line in printed if line.endswith(b"\n")]
    return {id_.decode(): payload for id_, payload in pairs}


async def read_all(directory: Path) -> dict[str, bytes]:
    async with Journal(directory, "a7") as journal:
        found: dict[str, bytes] = {}
        while reservation := await journal.read_reserve(10_000, 60):
            found |= {record.id: record.payload for record in await journal.read(reservation)}
        assert journal.stats().damages == 0
        return found


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_to_sigkill(tmp_path: Path) -> None:
    rng = random.Random(20261115)
    acknowledged: dict[str, bytes] = {}
    for _ in range(KILLS):
        fresh = write_until_killed(tmp_path, rng.randrange(1, 400))
        assert not acknowledged.keys() & fresh.keys(), "an id was given out twice"
        acknowledged |= fresh
    found = asyncio.run(read_all(tmp_path))
    lost = acknowledged.keys() - found.keys()
    assert not lost, f"{len(lost)} of {len(acknowledged)} lost, such as {min(lost)}"
    assert all(found[id_] == payload for id_, payload in acknowledged.items())
