"""An import dies at any of its commands to the server: the next goes on, and nothing is left out or counted twice."""

import contextlib
import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from functory.transfer.migrate import migrate
from store.errors import StoreUnavailable
from store.mongo import MongoStore
from store.sqlite import SqliteStore
from tests.support.jobs import JOBTYPE, T0, TENANT, claim, claim_one, new_job
from tests.support.migration_worker import LATER
from tests.support.mongo_cut import CutProxy
from tests.support.store_audit import check_states
from tests.support.store_content import fill, read_content

pytestmark = pytest.mark.slow

FIRST, LAST = 10, 100
STRIDE = 1 if os.environ.get("FUNCTORY_ALL_CUTS") else 53


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("cut_at", range(FIRST, LAST, STRIDE))
async def test_whatever_the_command_at_which_it_dies(
    mongo_url: str, tmp_path: Path, cut_at: int, *, after: bool
) -> None:
    parts = urlsplit(mongo_url)
    assert parts.port is not None
    async with SqliteStore(tmp_path / "source.db") as source:
        await fill(source)
        async with MongoStore(mongo_url):
            pass  # the collections and indexes
        async with CutProxy("127.0.0.1", parts.port, cut_at=cut_at, after=after) as proxy:
            url = f"mongodb://127.0.0.1:{proxy.port}{parts.path}?serverSelectionTimeoutMS=150&directConnection=true"
            dying = MongoStore(url)
            with contextlib.suppress(StoreUnavailable):
                await dying.open()
                await migrate(source, dying, label="x", now_ms=lambda: LATER, page_records=20)
            assert proxy.is_cut(), "the import sends fewer commands than this suite supposes"
            await dying.close()
        async with MongoStore(mongo_url) as target:
            await migrate(source, target, label="x", now_ms=lambda: LATER, page_records=20)
            assert await read_content(target) == await read_content(source)
            await check_states(target, TENANT, LATER)


async def test_what_dies_before_keys_are_held_is_repeated(
    mongo_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jobs are in by then."""

    async def die(*_: object) -> None:
        raise StoreUnavailable("the process was killed")

    async with SqliteStore(tmp_path / "source.db") as source, MongoStore(mongo_url) as target:
        await source.add_jobs([new_job(1, key="ada"), new_job(2, key="ada")], now_ms=T0)
        running = await claim_one(source, max_per_key=1)
        with monkeypatch.context() as broken:
            broken.setattr("store.mongo.records.importing.hold_places", die)
            with pytest.raises(StoreUnavailable):
                await migrate(source, target, label="x", now_ms=lambda: LATER)
        await migrate(source, target, label="x", now_ms=lambda: LATER)
        assert (await target.get_key_state(TENANT, JOBTYPE, "ada", limit=5, now_ms=T0)).running == (running.id,)
        assert await claim(target, max_per_key=1) == []
