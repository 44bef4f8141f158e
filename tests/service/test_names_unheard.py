"""A daemon is told nothing while another deletes a tenant and creates one of its name: the jobs of the new one run with
its own code, in contexts of its own, and are handed to nobody else."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.errors import Unauthorized
from functory.operations import consumers, workers
from functory.operations.handlers import put_handler
from functory.operations.keyring import KeyRing
from functory.operations.keys import create_key
from functory.operations.principal import OPERATOR, Principal
from functory.operations.submit import submit_lines
from functory.operations.tenants import create_tenant, delete_tenant
from functory.tenant_limits import TenantLimits
from functory.web.app import make_app
from functory.web.http.settings import WebSettings
from functory.web.listener import Listener
from functory.workers.values import Order, Worker
from runner.context import ProcessContext
from store.base import NewHandler, NewJob, Tenant
from tests.support.consumers import WHO, put
from tests.support.pages import visitor
from tests.support.service import ended, register, running_daemon, until
from tests.support.stores import BACK_ENDS, back_end_params

PID = "import os\nreturn str(os.getpid())"


@pytest.fixture(params=back_end_params())
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as store:
        yield store


class Pair:
    """`here` runs jobs, and is told nothing by `there`. Nor does it look again by itself before the test is over."""

    def __init__(self, here: Daemon, there: Daemon) -> None:
        self.here = here
        self.there = there

    async def make(self, body: str, lang: str = "python", **fields: object) -> None:
        """A tenant with a handler; one of the name goes before."""
        service = service_of(self.there)
        if await self.there.store.get_tenant("acme") is not None:
            while (await delete_tenant(service, "test", "acme")).more:
                pass
        await create_tenant(service, "test", "acme", 1, TenantLimits())
        await register(self.there, "acme-x", body, lang, **fields)

    async def key(self) -> str:
        """Of the tenant that there is now."""
        _, text = await create_key(service_of(self.there), "test", "acme")
        return text

    async def sign_in(self) -> Principal:
        """With a key of the tenant that there is now."""
        return await KeyRing(service_of(self.here)).admit(await self.key())

    async def add(self) -> str:
        """A job that is in the store, and due also for a claim that has begun."""
        (job_id,) = self.there.journal.take_ids(1)
        now_ms = self.there.clock.now_ms()
        await self.there.store.add_jobs([NewJob(job_id, "acme-x", b"1", now_ms - 60_000, now_ms)], now_ms=now_ms)
        return job_id

    async def find(self, job_id: str) -> str:
        """The result of a job that `here` finds in the store."""
        self.here.executor.wake()
        return await self.result(job_id)

    async def result(self, job_id: str) -> str:
        record = await ended(self.here, job_id)
        assert record.outcome is not None
        return (record.outcome.result or b"").decode()

    async def is_clear(self) -> bool:
        return self.here.executor.is_clear("acme-x")

    async def submit(self, who: Principal) -> str:
        """The result of a job that goes straight to a slot of `here`."""
        await until(self.is_clear)
        (job_id,) = await submit_lines(service_of(self.here), who, "x", [b"1"])
        assert self.here.straight.is_here(job_id)
        return await self.result(job_id)


@asynccontextmanager
async def open_pair(folder: Path, url: str) -> AsyncIterator[Pair]:
    async with (
        running_daemon(folder / "here", store=url, wake="off", poll="1h") as here,
        running_daemon(folder / "there", store=url, wake="off", role="api") as there,
    ):
        yield Pair(here, there)


async def test_jobs_in_the_store(tmp_path: Path, url: str) -> None:
    async with open_pair(tmp_path, url) as pair:
        for body in ("return 'old'", "return 'new'"):
            await pair.make(body)
            assert await pair.find(await pair.add()) == f'"{body[8:11]}"'


async def test_jobs_that_come_between_a_look_and_a_claim(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_pair(tmp_path, url) as pair:
        await pair.make("return 'old'")
        assert await pair.find(await pair.add()) == '"old"'
        claim, look = pair.here.store.claim_jobs, pair.here.store.get_waiting_jobtypes
        added, claimed = list[str](), asyncio.Event()

        async def look_late(**named: Any) -> Any:
            await claimed.wait()
            return await look(**named)

        async def claim_late(*given: Any, **named: Any) -> Any:
            if added:
                return await claim(*given, **named)
            monkeypatch.setattr(pair.here.store, "get_waiting_jobtypes", look_late)
            await pair.make("return 'new'")
            added.append(await pair.add())
            jobs = await claim(*given, **named)
            claimed.set()
            return jobs

        async def was_added() -> list[str]:
            return added

        await pair.add()
        monkeypatch.setattr(pair.here.store, "claim_jobs", claim_late)
        pair.here.executor.wake()
        await until(was_added)
        assert await pair.result(added[0]) == '"new"'


async def test_jobs_of_the_old_one_that_were_just_claimed(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_pair(tmp_path, url) as pair:
        claim, marker, has_new = pair.here.store.claim_jobs, tmp_path / "marker", asyncio.Event()

        async def claim_slowly(*given: Any, **named: Any) -> Any:
            jobs = await claim(*given, **named)
            if not has_new.is_set():
                await pair.make("return 'new'")
                await pair.sign_in()
                has_new.set()
            return jobs

        async def is_over() -> bool:
            return len(pair.here.executor._slots) == 0

        monkeypatch.setattr(pair.here.store, "claim_jobs", claim_slowly)
        await pair.make(f"open({str(marker)!r}, 'w')")
        await pair.add()
        pair.here.executor.wake()
        await has_new.wait()
        assert await pair.find(await pair.add()) == '"new"'
        await until(is_over)
        assert not await asyncio.to_thread(marker.exists)


async def test_jobs_that_go_straight_to_a_slot(tmp_path: Path, url: str) -> None:
    async with open_pair(tmp_path, url) as pair:
        for body in ("return 'old'", "return 'new'"):
            await pair.make(body)
            assert await pair.submit(await pair.sign_in()) == f'"{body[8:11]}"'


class Door(NamedTuple):
    """Where `here` is reached by HTTP."""

    url: str


@asynccontextmanager
async def open_door(daemon: Daemon) -> AsyncIterator[Door]:
    listener = Listener(make_app(service_of(daemon), WebSettings(port=0, shutdown_s=1.0)))
    await listener.start()
    try:
        yield Door(f"http://127.0.0.1:{listener.port}")
    finally:
        await listener.stop()


async def added_by_path(door: Door, key: str) -> str:
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as session,
        session.post(f"{door.url}/add?jobtype=x&client=acme", data=b"1") as answer,
    ):
        assert answer.status == 200, await answer.text()
        (job_id,) = (await answer.json())["ids"]
    return str(job_id)


async def added_by_page(door: Door, key: str) -> str:
    async with visitor(door) as operator:
        await operator.sign_in(key)
        rule = {"name": "a", "type": "y", "notify": "x", "kind": "backlog", "number": "9"}
        made = await operator.post("/ui/t/acme/alerts", {**rule, "time": "1m", "for": "0s", "calm": "1m"})
        assert made.status == 303, made.text
        return (await operator.post("/ui/t/acme/alerts/a/test")).location.rpartition("/")[2].partition("?")[0]


@pytest.mark.parametrize("add", [added_by_path, added_by_page])
async def test_jobs_that_the_operator_adds(
    tmp_path: Path, url: str, add: Callable[[Door, str], Awaitable[str]]
) -> None:
    async with open_pair(tmp_path, url) as pair, open_door(pair.here) as door:
        _, key = await create_key(service_of(pair.there), "test", OPERATOR)
        for body in ("return 'old'", "return 'new'"):
            await pair.make(body)
            await until(pair.is_clear)
            assert await pair.result(await add(door, key)) == f'"{body[8:11]}"'


async def test_a_version_in_force(tmp_path: Path, url: str) -> None:
    async with open_pair(tmp_path, url) as pair:
        await pair.make("return 'old'")
        assert await pair.submit(await pair.sign_in()) == '"old"'
        await pair.make("return 'new'")
        await register(pair.there, "acme-x", "return 'newer'")
        assert await pair.submit(await pair.sign_in()) == '"newer"'


@pytest.mark.parametrize("way", ["in the store", "straight"])
async def test_a_warm_context(tmp_path: Path, url: str, way: str) -> None:
    async with open_pair(tmp_path, url) as pair:

        async def result() -> str:
            return await (pair.find(await pair.add()) if way == "in the store" else pair.submit(await pair.sign_in()))

        async def is_idle() -> bool:
            return pair.here._parts.runner.gauges()["idle"] == 1

        await pair.make(PID, eid="shared")
        first = await result()
        await until(is_idle)
        assert await result() == first, "it is warm"
        await until(is_idle)
        await pair.make(PID, eid="shared")
        assert await result() != first


async def test_jobs_that_run_when_the_old_one_is_ended(tmp_path: Path, url: str) -> None:
    async with open_pair(tmp_path, url) as pair:

        def body(name: str) -> str:
            """Leaves a mark each time it begins, and goes on when somebody writes to it."""
            begun, go = tmp_path / f"{name} begun", tmp_path / f"{name} go"
            os.mkfifo(go)
            return f"open({str(begun)!r}, 'a').write('x')\nopen({str(go)!r}).read()\nreturn {name!r}"

        async def marks(name: str) -> str:
            path = tmp_path / f"{name} begun"
            return await asyncio.to_thread(path.read_text) if await asyncio.to_thread(path.exists) else ""

        async def is_alone() -> bool:
            return len(pair.here.executor._slots) == 1

        await pair.make(body("old"))
        await pair.add()
        pair.here.executor.wake()
        await until(partial(marks, "old"))
        await pair.make(body("new"))
        await pair.sign_in()
        new = await pair.add()
        pair.here.executor.wake()
        await until(partial(marks, "new"))
        await pair.here.executor.refresh_tenants()  # as upkeep does
        await until(is_alone)
        await asyncio.to_thread((tmp_path / "new go").write_text, "")
        assert await pair.result(new) == '"new"'
        assert await marks("new") == "x", "it ran once"


async def test_the_source_of_a_consumer(tmp_path: Path, url: str) -> None:
    async with running_daemon(tmp_path, store=url, wake="off", poll="1h") as daemon:
        service, now_ms = service_of(daemon), daemon.clock.now_ms()

        async def leads_none() -> bool:
            return daemon.consumers.led == 0

        for created_ms in (now_ms - 2, now_ms - 1):
            while (await daemon.store.delete_tenant("acme")).more:  # as another daemon does
                pass
            await daemon.store.create_tenant(Tenant("acme", created_ms))
            source = json.dumps({"lang": "python", "body": f"return {created_ms}", "returns": "value"}).encode()
            await daemon.store.set_handler("acme", NewHandler("acme-chain", "python", source, now_ms))
            await put(service, pull="chain", max_processing=1)
            job = await until(partial(daemon.store.get_job_at, "acme", "acme-block", 1, now_ms=now_ms))
            assert job.job.data == b"%d" % created_ms
            await consumers.delete_consumer(service, WHO, "verify")
            daemon.consumers.changed()
            await until(leads_none)


async def test_jobs_for_workers(tmp_path: Path, url: str) -> None:
    async with open_pair(tmp_path, url) as pair:

        async def take() -> list[tuple[str, int | None]]:
            pair.here.workers.wake()
            taken = await pair.here.workers.take(Order("acme", ("x",)))
            return [(job.id, timeout_ms) for job, timeout_ms in taken]

        await pair.make("", "worker", timeout_s=1)
        await pair.sign_in()
        old = await pair.add()
        assert await take() == [(old, 1000)]
        await pair.make("", "worker", timeout_s=2)
        await register(pair.there, "acme-x", "", "worker", timeout_s=3)
        new = await pair.add()
        assert await take() == [], "it is a worker of the old one who asks"
        await pair.sign_in()
        assert await take() == [(new, 3000)]


async def test_workers_of_the_old_one_get_no_jobs_of_the_new_one(tmp_path: Path, url: str) -> None:
    async with open_pair(tmp_path, url) as pair:

        async def take(who: Principal) -> list[str]:
            pair.here.workers.wake()
            taken = await workers.take(service_of(pair.here), who, Order("", ("x",), worker=Worker(who.key_id)))
            return [job.id for job, _ in taken]

        await pair.make("", "worker")
        old = await pair.sign_in()
        job_id = await pair.add()
        assert await take(old) == [job_id]
        await pair.make("", "worker")
        new = await pair.sign_in()
        job_id = await pair.add()
        assert await take(old) == []
        assert [seen.name for seen in await pair.here.workers.seen("acme")] == []
        assert await take(new) == [job_id]


async def test_keys_of_the_old_one_end_when_the_new_one_is_met(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functory.operations.keyring.LIFE_S", 3600.0)
    async with open_pair(tmp_path, url) as pair:
        service = service_of(pair.here)
        pair.here.hearing.when_keys_changed(service.verified_keys.forget)
        keys = KeyRing(service)
        await pair.make("return 'old'")
        old = await pair.key()
        who = await keys.admit(old)
        await pair.make("return 'new'")
        assert await keys.admit(old) == who, "nobody has told it"
        await keys.admit(await pair.key())
        with pytest.raises(Unauthorized):
            await keys.admit(old)
        with pytest.raises(Unauthorized):
            await keys.confirm(who)


async def test_a_check_of_the_new_one_does_not_end_with_the_old_one(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_pair(tmp_path, url) as pair:
        check = ProcessContext.check

        async def check_late(context: ProcessContext, *given: Any) -> bytes:
            await pair.here.executor.refresh_tenants()  # as upkeep does
            return await check(context, *given)

        await pair.make("return 'old'")
        await pair.sign_in()
        await pair.make("return 'new'")
        who = await pair.sign_in()
        monkeypatch.setattr(ProcessContext, "check", check_late)
        await put_handler(service_of(pair.here), who, "x", {"lang": "python", "body": "return 'newer'"})
