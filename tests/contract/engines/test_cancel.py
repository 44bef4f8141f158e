"""A job that is cancelled while a batch runs: it is stopped, reported once as cancelled, and costs no other job."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from handlers.model import Handler
from runner.outcome import Stopped
from runner.runner import Runner
from tests.support.engines import behaviours, handler, jobs

pytestmark = pytest.mark.asyncio(loop_scope="module")
PAYLOADS = ("0", "1", "2", "3", "4")


async def run_and_cancel(
    runner: Runner, made: Handler, payloads: Sequence[str], at: int, when: Callable[[list[Stopped]], bool]
) -> tuple[list[Stopped], list[int], bool]:
    """(what stopped, the places of those given back, whether the job at that place was running when it was cancelled),
    cancelled as soon as `when` says so."""
    batch = jobs(*payloads)
    seen: list[Stopped] = []
    asked: list[bool] = []

    def look() -> bool:
        if not asked and when(seen):
            asked.append(runner.cancel("acme", batch[at].id))
        return True

    def on_stopped(stopped: Sequence[Stopped]) -> None:
        seen.extend(stopped)
        look()

    async with asyncio.timeout(30):
        given_back = await runner.run_jobs("acme-test", batch, made, on_stopped, look)
    assert not runner.cancel("acme", batch[at].id), "it has stopped"
    places = {job.id: place for place, job in enumerate(batch)}
    return seen, [places[job_id] for job_id in given_back], asked[0]


@pytest.mark.parametrize("lang", behaviours("spin_at_2"))
async def test_the_running_job_is_stopped_and_the_rest_is_given_back(runner: Runner, lang: str) -> None:
    made = handler(lang, "spin_at_2", timeout_s=60)
    seen, given_back, was_running = await run_and_cancel(runner, made, PAYLOADS, 2, lambda seen: len(seen) == 2)
    assert was_running
    assert [(one.code, one.exitcode) for one in seen] == [("ok", 200), ("ok", 200), ("cancelled", 499)]
    assert seen[2].result.startswith(b"cancelled while it was running")
    assert b"timed out" not in seen[2].result
    assert given_back == [3, 4]


async def test_a_job_whose_turn_has_not_come_is_stopped_when_it_comes(runner: Runner) -> None:
    body = "import time\nif payload == '1': time.sleep(0.1)\nwhile payload == '2': pass"
    made = Handler("python", body, timeout_s=3600)
    seen, given_back, was_running = await run_and_cancel(runner, made, PAYLOADS, 2, lambda seen: len(seen) == 1)
    assert not was_running
    assert [one.code for one in seen] == ["ok", "ok", "cancelled"]
    assert given_back == [3, 4]


async def test_a_job_of_a_later_message_is_not_started(runner: Runner) -> None:
    made = handler("python", "spin_at_2", timeout_s=60, options={"max_batch": 2})
    seen, given_back, _ = await run_and_cancel(runner, made, PAYLOADS, 2, lambda seen: not seen)
    assert [one.code for one in seen] == ["ok", "ok", "cancelled", "ok", "ok"]
    assert seen[2].duration_ms == 0
    assert given_back == []


async def test_a_job_that_is_cancelled_while_it_waits_for_a_context_is_not_started(runner: Runner) -> None:
    seen, given_back, was_running = await run_and_cancel(
        runner, handler("python", "spin_at_2", timeout_s=60), ("2", "3"), 0, lambda seen: not seen
    )
    assert not was_running
    assert [(one.code, one.duration_ms > 0) for one in seen] == [("cancelled", False), ("ok", True)]
    assert given_back == []


async def test_another_tenant_cannot_stop_it(runner: Runner) -> None:
    batch = jobs("0", "1", "3")
    seen: list[Stopped] = []

    def on_stopped(stopped: Sequence[Stopped]) -> None:
        seen.extend(stopped)
        assert not runner.cancel("other", batch[2].id)

    await runner.run_jobs("acme-test", batch, handler("python", "spin_at_2"), on_stopped)
    assert [one.code for one in seen] == ["ok", "ok", "ok"]
