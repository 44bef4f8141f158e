"""`functory export`: whole jobs, one a line, however many and however large they are."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from functory.cli import job_listing
from functory.client import Client
from functory.wire.jobs import Job
from store.base import Code
from tests.support.terminal import Terminal
from tests.support.web import Site

LARGE = b"r" * 300_000


async def exported(terminal: Terminal, *words: str) -> tuple[list[dict[str, Any]], str]:
    """The jobs, and what was told."""
    *lines, told = (await terminal.run("export", *words)).splitlines()
    return [json.loads(line) for line in lines], told


@pytest.fixture(autouse=True)
def _few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_listing, "_AT_ONCE", 2)


async def test_every_job_is_exported_once_with_payload_and_result(site: Site, terminal: Terminal) -> None:
    ids = await site.add("a", "b", "ü", "d", "e")
    await site.run(4, result=b'{"n": 1}', log=b"said")
    await site.run(1, result=LARGE, log=b"said")
    jobs, told = await exported(terminal)
    assert sorted(job["id"] for job in jobs) == ids
    assert {job["id"]: job["payload"] for job in jobs} == dict(zip(ids, ["a", "b", "ü", "d", "e"], strict=True))
    assert sorted(job["result"] for job in jobs) == [LARGE.decode(), *['{"n": 1}'] * 4]
    assert {job["log"] for job in jobs} == {"said"}
    assert told == "Exported 5 jobs."


async def test_what_no_terminal_is_to_read_is_escaped_as_json_does_it(site: Site, terminal: Terminal) -> None:
    """What a terminal cannot show is escaped in the way of Python, which is no JSON."""
    await site.add("é \x9b31m \u202e")
    await site.run(1)
    lines = await terminal.run("export")
    assert lines.isascii()
    assert json.loads(lines.splitlines()[0])["payload"] == "é \x9b31m \u202e"


async def test_a_filter_and_a_limit_hold(site: Site, terminal: Terminal) -> None:
    await site.add("a", "b", "c", "d")
    await site.run(1, Code.FAILED)
    await site.run(2)
    for words, count in (
        (("--code", "failed"), 1),
        (("--code", "ok"), 2),
        (("--limit", "1"), 1),
        (("--limit", "3"), 3),
        (("--state", "all"), 4),
        (("--state", "waiting"), 1),
        (("--contains", "d"), 0),
        (("--type", "mail*"), 0),
    ):
        jobs, told = await exported(terminal, *words)
        assert len(jobs) == count, words
        assert told == f"Exported {count} job{'' if count == 1 else 's'}."


async def test_what_is_deleted_meanwhile_is_counted(
    site: Site, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.add("a", "b", "c")
    await site.run(3)
    read = Client.wait_for_jobs

    async def wait_for_jobs(client: Client, job_ids: Sequence[str], **options: Any) -> dict[str, Job | None]:
        await client.delete_job(job_ids[0])
        return await read(client, job_ids, **options)

    monkeypatch.setattr(Client, "wait_for_jobs", wait_for_jobs)
    jobs, told = await exported(terminal)
    assert len(jobs) == 1
    assert told == "Exported 1 job; deleted meanwhile: 2 jobs."
