"""A process dies while it adds the jobs of a request under a key: nothing says that they are there unless all are."""

import contextlib
from urllib.parse import urlsplit

import pytest

from store.base import Binding
from store.errors import StoreUnavailable
from store.mongo import MongoStore
from tests.support.jobs import T0, TENANT, new_jobs
from tests.support.mongo_cut import CutProxy

BINDING = Binding(TENANT, "key", b"mine", "added", T0 + 1000, ("more", b"what else"))
JOBS = new_jobs(3)
MOST_COMMANDS = 20


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_whatever_the_command_at_which_it_dies(mongo_url: str, *, after: bool) -> None:
    parts = urlsplit(mongo_url)
    assert parts.port is not None
    seen = set[tuple[bool, bool, int, bool]]()
    for cut_at in range(1, MOST_COMMANDS):
        number = f"-{cut_at}"
        binding = BINDING._replace(key=f"key{number}", done=f"added{number}", more=(f"more{number}", b"what else"))
        jobs = [job._replace(id=job.id + number) for job in JOBS]
        async with CutProxy("127.0.0.1", parts.port, cut_at=None, after=after) as proxy:
            url = f"mongodb://127.0.0.1:{proxy.port}{parts.path}?serverSelectionTimeoutMS=150&directConnection=true"
            dying = MongoStore(url)
            await dying.open()
            proxy.cut_in(cut_at)
            with contextlib.suppress(StoreUnavailable):
                await dying.add_jobs_once(binding, jobs, now_ms=T0)
            is_over = not proxy.is_cut()
            await dying.close()
        async with MongoStore(mongo_url) as store:
            names = (f"more{number}", binding.key, binding.done)
            more, key, done = [await store.get_once(TENANT, name, now_ms=T0) is not None for name in names]
            there = len(await store.get_states(TENANT, [job.id for job in jobs], now_ms=T0))
        assert more or not key
        assert key or not there
        assert there == len(jobs) or not done
        seen.add((more, key, there, done))
        if is_over:
            break
    else:
        pytest.fail("it takes more commands than this test supposes")
    assert {(False, False, 0, False), (True, False, 0, False), (True, True, 0, False), (True, True, 3, True)} <= seen
