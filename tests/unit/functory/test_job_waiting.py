"""Waiting for jobs on the command line: what passes is waited out, and only one job is told of at a time."""

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import pytest

from functory.cli.job_waiting import show_ended, show_one_ended, until_ended
from functory.client import Client, ClientError
from functory.errors import FunctoryError, ServerUnreachable
from functory.wire.jobs import EndedJobs, Job, Why
from tests.support.virtual_time import run_in_virtual_time

BUSY = ClientError(429, "too_many_requests", "too many requests", {}, 0.001)
NOT_YET = ClientError(503, "not_ready_yet", "ask again in a moment", {}, 0.001)
GONE = ClientError(404, "missing", "there is no such job", {}, None)
UNREACHED = ServerUnreachable("http://x cannot be reached")
AWAY = ClientError(503, "store_unavailable", "the store is away", {}, 0.001)


class Service:
    """Answers each question about a job with the next of what it was given for it; the last one stays."""

    def __init__(self, **answers: Sequence[FunctoryError | str]) -> None:
        self._answers = {job_id: list(each) for job_id, each in answers.items()}
        self.asked_why: Counter[str] = Counter()

    async def get_job(self, job_id: str, *, wait_s: float = 0.0) -> Job:
        await asyncio.sleep(0)
        answer = self._next(job_id)
        if isinstance(answer, FunctoryError):
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
            elif isinstance(answer, FunctoryError):
                raise answer
            else:
                found.jobs.append(self._job(job_id, answer))
        return found

    def _next(self, job_id: str) -> FunctoryError | str:
        answers = self._answers[job_id]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def _job(self, job_id: str, answer: str) -> Job:
        code: Any = {"archived": "ok", "failed": "failed"}.get(answer)
        state: Any = "archived" if code else answer
        return Job(job_id, "x", state, 500, 0, 0, 0, code=code, payload="x")

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


@pytest.mark.parametrize(
    ("states", "status", "said"),
    [
        ({"a": "running"}, 9, "a is still running after 0 s; it goes on: functory job wait a"),
        ({"a": "archived", "b": "deferred"}, 9, "b is still deferred after 0 s; it goes on: functory job wait b"),
        ({"a": "paused"}, 9, "a is still held after 0 s; it goes on: functory job wait a"),
        ({"a": "failed", "b": "waiting"}, 1, "b is still waiting after 0 s; it goes on: functory job wait b"),
        ({"a": "paused", "b": "waiting"}, 9, "2 jobs have not ended after 0 s; they go on: functory job wait a b"),
        (
            dict.fromkeys("abcdef", "running"),
            9,
            "6 jobs have not ended after 0 s; they go on: functory job wait a b c d e ...",
        ),
        ({"a": "archived"}, 0, ""),
        ({"a": "failed"}, 1, ""),
    ],
)
async def test_a_job_that_goes_on_is_told_apart_from_one_that_failed(
    capsys: pytest.CaptureFixture[str], states: dict[str, str], status: int, said: str
) -> None:
    arguments = argparse.Namespace(timeout_s=0.0, json=True)
    service = cast("Client", Service(**{job_id: [state] for job_id, state in states.items()}))
    assert await show_ended(service, list(states), arguments) == status
    assert capsys.readouterr().err.strip() == (said and f"functory: {said}")
    if len(states) == 1:
        assert await show_one_ended(service, "a", arguments) == status
        assert capsys.readouterr().err.strip().splitlines()[-1:] == ([f"functory: {said}"] if said else [])


@pytest.mark.parametrize("error", [AWAY, GONE])
async def test_what_does_not_pass_is_an_error(error: ClientError) -> None:
    with pytest.raises(ClientError, match=error.error_code):
        await until_ended(cast("Client", Service(a=[error])), "a", 30.0)


async def test_patience_ends_with_the_time() -> None:
    with pytest.raises(ClientError, match="too_many_requests"):
        await until_ended(cast("Client", Service(a=[BUSY])), "a", 0.0)


@pytest.mark.parametrize("is_just_added", [False, True])
def test_a_server_that_is_restarted_meanwhile_is_asked_again(
    capsys: pytest.CaptureFixture[str], *, is_just_added: bool
) -> None:
    before = [] if is_just_added else ["running"]
    service = Service(a=[*before, *[UNREACHED] * 50, "running", *[UNREACHED] * 50, "archived"])
    arguments = argparse.Namespace(timeout_s=None, json=True)
    waiting = show_ended(cast("Client", service), ["a"], arguments, may_be_gone=is_just_added)
    assert run_in_virtual_time(waiting) == 0
    assert capsys.readouterr().err.count("http://x cannot be reached; trying again\n") == 2


@pytest.mark.parametrize(("timeout_s", "tries"), [(None, 60), (10.0, 10)])
def test_one_that_stays_away_is_given_up_with_what_to_do(timeout_s: float | None, tries: int) -> None:
    service = Service(a=["running", *[UNREACHED] * (tries + 1), "archived"])
    with pytest.raises(ServerUnreachable, match="cannot be reached; what it has accepted goes on: functory job wait a"):
        run_in_virtual_time(until_ended(cast("Client", service), "a", timeout_s))


async def test_a_server_that_never_answered_is_not_waited_for() -> None:
    with pytest.raises(ServerUnreachable, match=r"^http://x cannot be reached$"):
        await until_ended(cast("Client", Service(a=[UNREACHED, "archived"])), "a", None)
