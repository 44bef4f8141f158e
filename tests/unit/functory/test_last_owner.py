"""What the last process in a folder held is free for the next one."""

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from functory.daemon.last_owner import last_in, mark_of_place, take_over
from store.base import ConsumerRecord
from store.url import open_store
from tests.support.clocks import FakeClock
from tests.support.jobs import JOBTYPE, LEASE_MS, OWNER, T0, TENANT, claim, claim_one, ids, new_jobs


async def test_jobs_and_consumers_of_a_process_that_was_killed_are_free_at_once(tmp_path: Path) -> None:
    clock, url = FakeClock(T0), f"sqlite://{tmp_path}/store.db"
    async with open_store(url) as store:
        await take_over(tmp_path, store, clock, OWNER, url)
        await store.add_jobs(new_jobs(1), now_ms=T0)
        held = await claim_one(store)
        await store.set_consumer(ConsumerRecord(TENANT, "verify", f"{JOBTYPE}s", "{}", T0))
        assert await store.lead_consumers(OWNER, lease_ms=LEASE_MS, now_ms=T0)
        await take_over(tmp_path, store, clock, "b2", url)
        assert ids(await claim(store, owner="b2")) == [held.id]
        assert [led.name for led in await store.lead_consumers("b2", lease_ms=LEASE_MS, now_ms=T0)] == ["verify"]


async def test_a_process_that_finds_the_disk_full_is_known_to_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, url = FakeClock(T0), f"sqlite://{tmp_path}/store.db"
    open_path = Path.open

    def full(path: Path, *given: Any, **named: Any) -> Any:
        file = open_path(path, *given, **named)
        if path.suffix == ".new":
            file.close()
            raise OSError(errno.ENOSPC, "No space left on device")
        return file

    async with open_store(url) as store:
        await take_over(tmp_path, store, clock, "longer12", url)
        monkeypatch.setattr(Path, "open", full)
        for sysid in ("b2", "longer34"):
            await take_over(tmp_path, store, clock, sysid, url)
            assert await asyncio.to_thread(last_in, tmp_path) == (sysid, mark_of_place(tmp_path, url))
        assert not await asyncio.to_thread(lambda: list(tmp_path.glob("*.new")))
