"""Consumers that pull: a handler is asked for the head and for each index, when there is a worker for it."""

import asyncio
import json
from pathlib import Path

import pytest

from functory.consumers.led_consumer import LedConsumer
from functory.consumers.pull import PullSource
from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.operations import consumers
from functory.operations.consumers import Standing
from store.base import JobState
from tests.support.consumers import put, standing_at
from tests.support.polling import until
from tests.support.service import register, running_daemon

SOURCE = """
import json, os
asked = json.loads(payload)
with open(FOLDER + '/asked', 'a') as log:
    log.write(payload + chr(10))
if asked['ask'] == 'head':
    with open(FOLDER + '/head') as file:
        return int(file.read())
if asked['index'] == 7 and not os.path.exists(FOLDER + '/seven'):
    return ctx.retry()
return {'block': asked['index']}
"""

HEAD_OF_TWO = "import json\nasked = json.loads(payload)\nif asked['ask'] == 'head':\n    return 2\n"


async def register_source(daemon: Daemon, folder: Path, body: str = SOURCE) -> None:
    await register(daemon, "acme-chain", body.replace("FOLDER", repr(str(folder))), returns="value")


async def set_head(folder: Path, head: str) -> None:
    await asyncio.to_thread((folder / "head").write_text, head)


async def asked_of(folder: Path) -> list[int]:
    """The indexes that the source was asked for."""
    lines = [json.loads(line) for line in (await asyncio.to_thread((folder / "asked").read_text)).splitlines()]
    return [line["index"] for line in lines if line["ask"] == "at"]


async def heads_of(folder: Path) -> int:
    """How often the source was asked for its head."""
    lines = (await asyncio.to_thread((folder / "asked").read_text)).splitlines()
    return sum(json.loads(line)["ask"] == "head" for line in lines)


async def test_each_index_becomes_one_job_and_none_is_asked_for_without_a_worker(tmp_path: Path) -> None:
    await set_head(tmp_path, "20")
    async with running_daemon(tmp_path / "data") as daemon:
        service = service_of(daemon)
        await register_source(daemon, tmp_path)
        await put(service, pull="chain", max_processing=3)

        async def is_full() -> Standing | None:
            standing = await consumers.get_consumer(service, "acme", "verify")
            return standing if standing.report.released == 3 else None

        standing = await until(is_full)
        assert await asked_of(tmp_path) == [1, 2, 3], "there is no handler for its jobs: nobody is free for a fourth"
        assert standing.report.head == 3
        await register(daemon, "acme-block", "return payload")
        await standing_at(service, 6)
        assert (await asked_of(tmp_path))[-1] == 7
        await asyncio.to_thread((tmp_path / "seven").touch)
        await standing_at(service, 20)
        await set_head(tmp_path, "25")
        assert await consumers.check_consumer(service, "acme", "verify") == daemon.sysid
        standing = await standing_at(service, 25)
        assert standing.report.head == 25
        records = [await daemon.store.get_job_at("acme", "acme-block", n, now_ms=0) for n in range(1, 26)]
        assert [it.job.data for it in records if it is not None] == [b'{"block":%d}' % n for n in range(1, 26)]
        asked = await asked_of(tmp_path)
        assert [index for index in asked if index != 7] == [*range(1, 7), *range(8, 26)], "each once"


async def test_a_source_is_not_asked_for_its_head_while_nobody_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    look = LedConsumer._head_of_source

    async def counted(self: LedConsumer, source: PullSource) -> int:
        head = await look(self, source)
        looks.append(self.consumer.window.started)
        return head

    monkeypatch.setattr(LedConsumer, "_head_of_source", counted)
    await set_head(tmp_path, "3")
    async with running_daemon(tmp_path / "data") as daemon:
        service = service_of(daemon)
        await register_source(daemon, tmp_path)
        await put(service, pull="chain", max_processing=3)

        async def has_looked_again() -> bool:
            await consumers.check_consumer(service, "acme", "verify")
            return looks.count(3) >= 3

        await until(has_looked_again)
        lines = (await asyncio.to_thread((tmp_path / "asked").read_text)).splitlines()
        assert [json.loads(line)["ask"] for line in lines] == ["head", "at", "at", "at"]


async def test_after_a_restart_nothing_is_pulled_again(tmp_path: Path) -> None:
    await set_head(tmp_path, "6")
    async with running_daemon(tmp_path / "data") as daemon:
        await register_source(daemon, tmp_path)
        await put(service_of(daemon), pull="chain", start_index=3)

        async def are_pulled() -> bool:
            return (await consumers.get_consumer(service_of(daemon), "acme", "verify")).report.head == 6

        await until(are_pulled)
    async with running_daemon(tmp_path / "data") as daemon:
        await register(daemon, "acme-block", "return payload")
        standing = await standing_at(service_of(daemon), 6)
        assert standing.report.head == 6
        assert await asked_of(tmp_path) == [3, 4, 5, 6]


async def test_what_is_wrong_with_a_source_is_said_and_does_not_end_the_consumer(tmp_path: Path) -> None:
    async with running_daemon(tmp_path / "data") as daemon:
        service = service_of(daemon)
        await put(service, pull="chain")

        async def trouble(word: str) -> Standing:
            async def look() -> Standing | None:
                standing = await consumers.get_consumer(service, "acme", "verify")
                return standing if word in standing.note.trouble else None

            return await until(look)

        await trouble("has no handler")
        await register_source(daemon, tmp_path, "return 'many'")
        await trouble("as a whole number, and not")
        await register_source(daemon, tmp_path, "raise ValueError('no chain')")
        await trouble("no chain")
        await set_head(tmp_path, "2")
        await register_source(daemon, tmp_path)
        await register(daemon, "acme-block", "return payload")
        await standing_at(service, 2)

        async def is_well() -> bool:
            return not (await consumers.get_consumer(service, "acme", "verify")).note.trouble

        await until(is_well)


async def test_jobs_that_are_posted_to_a_pulled_type_are_not_the_consumers(tmp_path: Path) -> None:
    await set_head(tmp_path, "2")
    async with running_daemon(tmp_path / "data") as daemon:
        service = service_of(daemon)
        await register_source(daemon, tmp_path)
        await put(service, pull="chain")
        (posted,) = await daemon.intake.write("acme-block", [b"posted"])
        await register(daemon, "acme-block", "return payload")
        standing = await standing_at(service, 2)
        assert standing.report.head == 2

        async def has_ended() -> bool:
            states = await daemon.store.get_states("acme", [posted], now_ms=daemon.clock.now_ms())
            return states.get(posted) is JobState.ARCHIVED

        await until(has_ended)


async def test_text_of_python_is_json_and_bytes_are_as_they_are(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await register_source(daemon, tmp_path, HEAD_OF_TWO + "return 'text' if asked['index'] == 1 else b'bytes'")
        await register(daemon, "acme-block", "return payload")
        await put(service, pull="chain")
        await standing_at(service, 2)
        records = [await daemon.store.get_job_at("acme", "acme-block", n, now_ms=0) for n in (1, 2)]
        assert [record.job.data for record in records if record is not None] == [b'"text"', b"bytes"]


async def test_a_source_that_does_not_answer_holds_up_neither_its_own_change_nor_others(tmp_path: Path) -> None:
    hangs = "import time\nopen(FOLDER + '/asked', 'a').write(payload + chr(10))\ntime.sleep(3000)"
    async with running_daemon(tmp_path / "data") as daemon:
        service = service_of(daemon)
        await register(daemon, "acme-chain", hangs.replace("FOLDER", repr(str(tmp_path))), timeout_s=3600)

        async def is_asked(times: int) -> None:
            async def look() -> bool:
                asked = tmp_path / "asked"
                return (await asyncio.to_thread(asked.exists)) and (await heads_of(tmp_path)) >= times

            await until(look)

        await put(service, pull="chain")
        await is_asked(1)
        await put(service, pull="chain", max_processing=7)
        await register(daemon, "acme-other", "return payload")
        await put(service, "others", "other")
        await daemon.intake.write("acme-other", [b"1", b"2"])
        await standing_at(service, 2, "others")
        await is_asked(2)


async def test_a_consumer_that_takes_long_to_end_keeps_only_its_own_successor_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, led = asyncio.Event(), []
    lead = LedConsumer.lead

    async def slow(self: LedConsumer) -> None:
        led.append((self.record.name, self.terms.max_processing))
        try:
            await lead(self)
        finally:
            if self.record.name == "verify":
                await may_end.wait()

    monkeypatch.setattr(LedConsumer, "lead", slow)
    async with running_daemon(tmp_path / "data") as daemon:
        service = service_of(daemon)
        await put(service, max_processing=1)
        await until(lambda: _is_in(("verify", 1), led))
        await put(service, max_processing=2)
        await register(daemon, "acme-other", "return payload")
        await put(service, "others", "other")
        await daemon.intake.write("acme-other", [b"1"])
        await standing_at(service, 1, "others")
        assert ("verify", 2) not in led
        may_end.set()
        await until(lambda: _is_in(("verify", 2), led))


async def _is_in(one: tuple[str, int], led: list[tuple[str, int]]) -> bool:
    return one in led
