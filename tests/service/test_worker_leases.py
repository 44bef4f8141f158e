"""Leases of workers where their first daemon is gone, and deliveries of which there were two."""

from pathlib import Path

from functory.operations import workers as operations
from functory.workers.values import Answer, Report
from tests.support.clocks import FakeClock
from tests.support.workers import ACME, held, open_shop


async def test_a_renewal_after_a_restart_cuts_no_lease(tmp_path: Path) -> None:
    """It gave as long as the type says, 30 s here, to a worker that comes again after two hundred."""
    clock = FakeClock()
    async with open_shop(tmp_path, clock) as shop:
        await shop.serve("resize")
        await shop.post("1", "2")
        new, renewed = await shop.take(limit=2, lease_ms=600_000)
        clock.advance(200)
        assert await shop.renew(renewed) == [Answer.OK]
        clock.advance(200)
    async with open_shop(tmp_path, clock, is_new=False) as shop:
        now_ms = clock.now_ms()
        first, second = await operations.renew(shop.service, ACME, [held(new), held(renewed)])
        assert first.until_ms == now_ms + 400_000, (
            "two thirds are over: more than was left, and less than was asked for"
        )
        assert (second.until_ms or 0) >= now_ms + 600_000
        clock.advance(590)
        assert await shop.renew(renewed) == [Answer.OK]


async def test_a_lease_that_was_taken_for_long_is_renewed_so_at_another_daemon(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_shop(tmp_path, clock) as shop:
        await shop.serve("resize")
        await shop.post("1")
        (job,) = await shop.take(lease_ms=600_000)
    clock.advance(200)
    async with open_shop(tmp_path, clock, is_new=False) as shop:
        (verdict,) = await operations.renew(shop.service, ACME, [held(job)])
        assert verdict.until_ms == clock.now_ms() + 600_000


async def test_a_worker_that_lost_a_job_and_took_it_again_reports_both_deliveries(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_shop(tmp_path, clock) as shop:
        await shop.serve("resize")
        (job_id,) = await shop.post("1")
        (first,) = await shop.take(lease_ms=5000)
        clock.advance(6)
        await shop.daemon.upkeep.expire_leases()
        (second,) = await shop.take(lease_ms=5000)
        both = [Report(held(first), 500, b"first"), Report(held(second), 200, b"second")]
        verdicts = await operations.report(shop.service, ACME, both)
        assert [verdict.answer for verdict in verdicts] == [Answer.LATE, Answer.OK]
        assert (await shop.end(job_id)).result == b"second"
