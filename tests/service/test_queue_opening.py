"""functory.queue: what it is opened with, and what it registers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from functory.config import Settings
from functory.daemon.journals import make_journal
from functory.errors import InvalidConfig, InvalidInput
from functory.execution.handler_document import decode_handler, encode_handler
from functory.queue import Conflict, Worker, open_queue
from functory.queue.in_process import InProcessLink
from handlers.validation import parse_handler
from journal import Journal, JournalLocked
from store.base import NewHandler
from store.errors import UnsupportedStore
from tests.support.queue_places import Place
from tests.support.service import until


async def test_registering_keeps_what_it_does_not_name(place: Place) -> None:
    options = {"lease_s": 60, "max_attempts": 5}
    async with place.open() as queue:
        await queue.register("resize", body="a name", options=options)
        await queue.register("resize")
        (first,) = await place.store.list_handlers(place.tenant)
        assert first.version == 1, "nothing has changed"
        await queue.register("resize", timeout_s=90)
    stored = await place.store.get_handler(place.tenant, f"{place.tenant}-resize")
    assert stored
    handler = decode_handler(stored.data)
    assert (handler.body, handler.options, handler.timeout_s) == ("a name", options, 90)


async def test_a_worker_does_not_replace_a_handler_in_another_language(place: Place) -> None:
    worker, jobtype = Worker(), f"{place.tenant}-double"
    worker.task("double", register=True)(lambda payload: payload)
    data = encode_handler(parse_handler({"lang": "python", "body": "return 1"}))
    await place.store.set_handler(place.tenant, NewHandler(jobtype, "python", data, 1, author=""))
    async with place.open() as queue:
        with pytest.raises(Conflict, match="has a handler in python"):
            await worker.run(queue, begun=worker.stop)
    stored = await place.store.get_handler(place.tenant, jobtype)
    assert stored
    assert (stored.version, stored.data) == (1, data)


async def test_a_queue_is_opened_with_what_it_needs(tmp_path: Path) -> None:
    for url, more in (
        ("http://127.0.0.1:1", {}),
        ("http://127.0.0.1:1", {"key": "k", "tenant": "acme", "poll": "1s"}),
        (f"sqlite://{tmp_path}/x.db", {"key": "k"}),
        ("mongodb://127.0.0.1:1/x", {}),
    ):
        with pytest.raises(InvalidInput):
            async with open_queue(url, **more):  # type: ignore[arg-type]
                pass


@pytest.mark.parametrize("with_folder", [False, True])
async def test_a_mistyped_url_of_a_store_is_said_to_be_none(tmp_path: Path, with_folder: bool) -> None:
    folder = tmp_path if with_folder else None
    for url, words in (
        ("sqlite://jobs.db", "reads sqlite:///absolute/path.db"),
        ("sqlite:///", "reads sqlite:///absolute/path.db"),
    ):
        with pytest.raises(UnsupportedStore, match=words):
            async with open_queue(url, folder=folder):
                pass


@pytest.mark.parametrize("key", ["", "k"])
@pytest.mark.parametrize("url", ["jobs.db", "myserver:8484", "127.0.0.1:8484", "htp://myserver:8484"])
async def test_a_url_of_neither_a_server_nor_a_store_is_said_to_be_none(tmp_path: Path, url: str, key: str) -> None:
    with pytest.raises(InvalidInput, match=r"the URL begins with http:// or https:// .* sqlite://"):
        async with open_queue(url, key=key, tenant="acme", folder=tmp_path):
            pass


async def test_a_mistyped_setting_is_named(tmp_path: Path) -> None:
    for name, hint in (("leese", "; did you mean lease?"), ("nonsense", "; `functory config` lists them")):
        with pytest.raises(InvalidConfig) as caught:
            async with open_queue(f"sqlite://{tmp_path}/x.db", **{name: "5s"}):  # type: ignore[arg-type]
                pass
        assert str(caught.value) == f"{name!r} is not a setting{hint}"


async def test_a_queue_of_a_tenant_that_cannot_be_leaves_nothing_running(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    with pytest.raises(InvalidInput, match="Bad Name!"):
        async with open_queue(f"sqlite://{tmp_path}/jobs.db", tenant="Bad Name!"):
            pass
    assert asyncio.all_tasks() == before


async def test_jobs_of_a_process_that_died_reach_the_store_with_the_next_queue(tmp_path: Path) -> None:
    """Also if it was the second that had the store open, and now there is one. Another time, too."""
    url, beside = f"sqlite://{tmp_path}/jobs.db", tmp_path / "jobs.db.queues"

    async def leave(payload: bytes) -> None:
        """As one that is killed when `add` has returned."""

        async def is_written() -> bool:
            try:
                async with Journal(beside / "1" / "journal", "zz") as journal:
                    await journal.write("main-resize", [payload])
            except JournalLocked:  # somebody looks whether there is something in it
                return False
            return True

        await until(is_written)

    async with open_queue(url) as first:
        await first.register("resize")
        async with open_queue(url) as second:
            await second.add("resize", "0")
    await leave(b"1")
    async with open_queue(url) as queue:
        taken = [(await queue.next()).text, (await queue.next()).text]
        assert sorted(taken) == ["0", "1"]
        await leave(b"2")
        link = queue._link
        assert isinstance(link, InProcessLink)
        await link._daemon.left_journals.look()
        assert (await queue.next()).text == "2"


async def test_a_folder_in_which_nothing_is_left_stays_free_for_the_next_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks for lines does not lock it again and again, and finds those that are left in it later."""
    url, beside = f"sqlite://{tmp_path}/jobs.db", tmp_path / "jobs.db.queues"
    opened: list[Path] = []

    def note_and_make(settings: Settings, directory: Path, *more: Any) -> Journal:
        opened.append(directory)
        return make_journal(settings, directory, *more)

    monkeypatch.setattr("functory.daemon.left_journals.make_journal", note_and_make)
    async with open_queue(url) as queue:
        await queue.register("resize")
        async with open_queue(url) as second:
            await second.add("resize", "0")
        link = queue._link
        assert isinstance(link, InProcessLink)
        left_journals = link._daemon.left_journals
        for _ in range(3):
            opened.clear()
            await left_journals.look()
        assert opened == []
        async with Journal(beside / "1" / "journal", "zz") as journal:
            await journal.write("main-resize", [b"1"])
        await left_journals.look()
        assert set(opened) == {beside / "1" / "journal"}
        assert {(await queue.next()).text for _ in range(2)} == {"0", "1"}
