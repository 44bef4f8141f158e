"""Waiting for jobs on the command line: what passes is waited out, and only one job is told of at a time."""

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import pytest

from functory.cli.job_waiting import show_ended, until_ended
from functory.client import Client, ClientError
from functory.wire.jobs import Job, Why

BUSY = ClientError(429, "too_many_requests", "too many requests", {}, 0.001)
NOT_YET = ClientError(503, "not_ready_yet", "ask again in a moment", {}, 0.001)
GONE = ClientError(404, "missing", "there is no such job", {}, None)
AWAY = ClientError(503, "store_unavailable", "the store is away", {}, 0.001)


class Service:
    """Answers each question about a job with the next of what it was given for it; the last one stays."""

    def __init__(self, **answers: Sequence[ClientError | str]) -> None:
        self._answers = {job_id: list(each) for job_id, each in answers.items()}
        self.asked_why: Counter[str] = Counter()

    async def get_job(self, job_id: str, *, wait_s: float) -> Job:
        await asyncio.sleep(0)
        answers = self._answers[job_id]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, ClientError):
            raise answer
        code: Any = "ok" if answer == "archived" else None
        return Job(job_id, "x", cast("Any", answer), 500, 0, 0, 0, code=code)

    async def why(self, job_id: str) -> Why:
        self.asked_why[job_id] += 1
        return Why(job_id, "running", "running", "it is running")


async def show(service: Service, ids: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, Any, str]:
    arguments = argparse.Namespace(timeout_s=30.0, json=True)
    status = await show_ended(cast("Client", service), ids, arguments)
    printed = capsys.readouterr()
    return status, json.loads(printed.out), printed.err


async def test_what_passes_is_waited_out(capsys: pytest.CaptureFixture[str]) -> None:
    service = Service(a=[BUSY, "running", BUSY, "archived"], b=[NOT_YET, NOT_YET, "archived"], c=[NOT_YET, GONE])
    status, jobs, _ = await show(service, ["a", "b", "c"], capsys)
    assert status == 0
    assert [job["state"] for job in jobs] == ["archived", "archived", "ended, not kept"]


async def test_only_the_first_that_has_not_ended_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    service = Service(a=[*["running"] * 9, "archived"], b=["running", "archived"], c=["running", "archived"])
    _, _, said = await show(service, ["a", "b", "c"], capsys)
    assert said == "Waiting for a: it is running\n"
    assert set(service.asked_why) == {"a"}


@pytest.mark.parametrize("error", [AWAY, GONE])
async def test_what_does_not_pass_is_an_error(error: ClientError) -> None:
    with pytest.raises(ClientError, match=error.error_code):
        await until_ended(cast("Client", Service(a=[error])), "a", 30.0)


async def test_patience_ends_with_the_time() -> None:
    with pytest.raises(ClientError, match="too_many_requests"):
        await until_ended(cast("Client", Service(a=[BUSY])), "a", 0.0)
