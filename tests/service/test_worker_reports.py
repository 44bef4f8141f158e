"""Reports of workers that are refused: each alone, with the status that its job has."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from functory.operations import workers as operations
from functory.workers.values import Answer, Report
from runner.protocol import NewJob
from tests.support.service import ended, payloads_waiting
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.workers import ACME, Shop, held, open_shop


@pytest.fixture(params=back_end_params())
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    async with BACK_ENDS[request.param](tmp_path) as url, open_shop(tmp_path, store=url) as opened:
        yield opened


async def test_a_report_that_makes_no_sense_is_refused_and_the_others_are_recorded(shop: Shop) -> None:
    await shop.serve("resize")
    await shop.post("1", "2", "3")
    jobs = await shop.take(limit=3)
    first, second, third = map(held, jobs)
    reports = [
        Report(first, 302),
        Report(first, 100, retry_after_ms=-1),
        Report(first, progress=b"{"),
        Report(first, progress=b'"' + b"x" * 5000 + b'"'),
        Report(second, 200, b"fine"),
        Report(second, 400),
        Report(third, progress=b"40"),
    ]
    verdicts = await operations.report(shop.service, ACME, reports)
    assert [(it.id, it.answer, it.status, it.message.partition(":")[0]) for it in verdicts] == [
        (first.id, Answer.REFUSED, 422, "exitcode"),
        (first.id, Answer.REFUSED, 422, "delay_s"),
        (first.id, Answer.REFUSED, 422, "progress"),
        (first.id, Answer.REFUSED, 422, "progress"),
        (second.id, Answer.OK, None, ""),
        (second.id, Answer.REFUSED, 422, "id"),
        (third.id, Answer.OK, None, ""),
    ]
    assert (await ended(shop.daemon, second.id)).outcome is not None
    assert await shop.report(jobs[0]) is Answer.OK, "its worker still has it"


async def test_a_refusal_has_the_status_of_the_job(shop: Shop) -> None:
    await shop.serve("resize", on_failure="alarm")
    (job_id,) = await shop.post("1")
    (job,) = await shop.take()
    report = Report(held(job), 200, log=b"begun", new_jobs=(NewJob("resize", b"x", "bogus=1"),))
    (verdict,) = await operations.report(shop.service, ACME, [report])
    record = await ended(shop.daemon, job_id)
    assert record.outcome
    assert (verdict.answer, verdict.status, record.outcome.exitcode) == (Answer.REFUSED, 400, 400)
    assert record.outcome.log == b"begun\n"
    assert await payloads_waiting(shop.daemon, "acme-alarm") == [record.outcome.result]
