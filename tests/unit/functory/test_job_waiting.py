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
from functory.wire.jobs import EndedJobs, Job, Why

BUSY = ClientError(429, "too_many_requests", "too many requests", {}, 0.001)
NOT_YET = ClientError(503, "not_ready_yet", "ask again in a moment", {}, 0.001)
GONE = ClientError(404, "missing", "there is no such job", {}, None)
AWAY = ClientError(503, "store_unavailable", "the store is away", {}, 0.001)


class Service:
    """Answers each question about a job with the next of what it was given for it; the last one stays."""

    def __init__(self, **answers: Sequence[ClientError | str]) -> None:
        self._answers = {job_id: list(each) for job_id, each in answers.items()}
        self.asked_why: Counter[str] = Counter()

    async def get_job(self, job_id: str, *, wait_s: float = 0.0) -> Job:
        await asyncio.sleep(0)
        answer = self._next(job_id)
        if isinstance(answer, ClientError):
            raise answer
        return self._job(job_id, answer)

    async def get_jobs(self, job_ids: Sequence[str], *, wait_s: float) -> EndedJobs:
        await asyncio.sleep(0)
        found = EndedJobs([], [], [])
        for job_id in job_ids:
            answer = self._next(job_id)
            if answer is GONE:
                found.gone.append(job_id)
            elif answer is NOT_YET:
                found.left.append(job_id)
            elif isinstance(answer, ClientError):
                raise answer
            else:
                found.jobs.append(self._job(job_id, answer))
        return found

    def _next(self, job_id: str) -> ClientError | str:
        answers = self._answers[job_id]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def _job(self, job_id: str, answer: str) -> Job:
        code: Any = "ok" if answer == "archived" else None
        return Job(job_id, "x", cast("Any", answer), 500, 0, 0, 0, code=code, payload="x")

    async def why(self, job_id: str) -> Why:
        self.asked_why[job_id] += 1
        return Why(job_id, "running", "running", "it is running")


async def show(
    service: Service, ids: list[str], capsys: pytest.CaptureFixture[str], **more: bool
) -> tuple[int, Any, str]:
    arguments = argparse.Namespace(timeout_s=30.0, json=True)
    status = await show_ended(cast("Client", service), ids, arguments, **more)
    printed = capsys.readouterr()
    return status, json.loads(printed.out), printed.err


async def test_what_passes_is_waited_out(capsys: pytest.CaptureFixture[str]) -> None:
    service = Service(a=[BUSY, "running", BUSY, "archived"], b=[NOT_YET, NOT_YET, "archived"], c=[NOT_YET, GONE])
    status, jobs, _ = await show(service, ["a", "b", "c"], capsys, may_be_gone=True)
    assert status == 0
    assert [job["state"] for job in jobs] == ["archived", "archived", "ended, not kept"]


async def test_one_that_was_asked_for_by_name_should_be_there(capsys: pytest.CaptureFixture[str]) -> None:
    status, jobs, _ = await show(Service(a=["archived"], b=[GONE]), ["a", "b"], capsys)
    assert (status, [job["id"] for job in jobs]) == (1, ["a", "b"])


async def test_whether_it_is_there_is_not_guessed_when_the_time_is_up() -> None:
    arguments = argparse.Namespace(timeout_s=0.0, json=True)
    with pytest.raises(ClientError, match="not_ready_yet"):
        await show_ended(cast("Client", Service(a=["archived"], b=[NOT_YET])), ["a", "b"], arguments, may_be_gone=True)


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
