"""What the page of a job tells of its life: only what happened, with its year, and downloads of what it shows."""

import re

from store.base import Archive, Code, Finish, Outcome, Rearm, Retry
from tests.support.pages import Visitor, visitor
from tests.support.web import T0, Site

STEP = re.compile(r'<li class="k-(\w+)"><b>([^<]*)</b>')
JOB_ROW = re.compile(r'<th scope="row" class="mono"><a href="/ui/t/acme/job/([^"]+)"')
YEAR_MS = 365 * 86_400_000


async def shown(visit: Visitor, job_id: str, query: str = "") -> str:
    page = await visit.get(f"/ui/t/acme/job/{job_id}{query}")
    assert page.status == 200, page.text
    return page.text


async def claim(site: Site) -> int:
    """Claim the one job that waits; its token."""
    await site.intake.flush()
    now_ms = site.clock.now_ms()
    (job,) = await site.store.claim_jobs("acme-thumb", 1, owner="a7", lease_ms=60_000, now_ms=now_ms)
    return job.token


async def test_the_log_that_is_downloaded_is_the_one_that_is_shown(site: Site) -> None:
    (job_id,) = await site.add("x")
    token = await claim(site)
    raw = f"/ui/t/acme/job/{job_id}/raw/log"
    async with visitor(site, "acme") as acme:
        assert (await acme.get(raw)).status == 404
        site.control.glimpses["acme", job_id] = (b"first\n", b"")
        assert "raw/log" in await shown(acme, job_id)
        assert (await acme.get(raw)).text == "first\n"
        del site.control.glimpses["acme", job_id]
        outcome = Outcome(Code.ERROR, 500, T0, log=b"first\nand no more\n")
        await site.store.release_jobs("a7", [Retry(job_id, token, T0, outcome)], now_ms=T0)
        assert (await acme.get(raw)).text == "first\nand no more\n"
        await claim(site)
        site.control.glimpses["acme", job_id] = (b"", b"")
        assert "printed nothing" not in await shown(acme, job_id), "it may yet"
        site.control.glimpses["acme", job_id] = (b"second\n", b"")
        assert (await acme.get(raw)).text == "second\n"


async def test_an_empty_payload_can_be_downloaded(site: Site) -> None:
    answer = await site.post("/acme/job/thumb/add", json={"payload": ""})
    (job_id,) = answer.json["ids"]
    await site.intake.flush()
    async with visitor(site, "acme") as acme:
        assert "raw/payload" in await shown(acme, job_id)
        raw = await acme.get(f"/ui/t/acme/job/{job_id}/raw/payload")
        assert (raw.status, raw.text) == (200, "")


async def test_a_job_that_was_cancelled_before_its_time_was_never_due_and_never_started(site: Site) -> None:
    answer = await site.post("/acme/job/thumb/add", json={"payload": "x", "delay_s": 900})
    (job_id,) = answer.json["ids"]
    assert (await site.post(f"/acme/job/{job_id}/cancel")).status == 200
    async with visitor(site, "acme") as acme:
        page = await shown(acme, job_id)
        names = [name for _, name in STEP.findall(page)]
        assert names == ["Accepted", "Stored", "Deferred until", "Ended: cancelled", "Archived"]
        assert "The job was cancelled." in page
        for untrue in ("The handler", ", ran "):
            assert untrue not in page
        assert (await site.post(f"/acme/job/{job_id}/retry", json={"delay_s": 60})).status == 200
        assert STEP.findall(await shown(acme, job_id))[-1] == ("next", "Eligible")


async def test_a_job_that_a_worker_has_is_not_on_a_daemon(site: Site) -> None:
    (job_id,) = await site.add("x")
    await site.call("PUT", "/acme/handler/thumb", json={"lang": "worker"})
    await site.intake.flush()
    taken = await site.post("/acme/work/take", json={"types": ["thumb"], "lease_s": 30})
    assert len(taken.json["jobs"]) == 1, taken.body
    async with visitor(site, "acme") as acme:
        page = await shown(acme, job_id)
        assert STEP.findall(page)[-1] == ("now", "Held by a worker")
        assert "daemon" not in page.partition('class="life"')[2].partition("</ol>")[0]
        assert re.search(r"a worker has it, until <time [^>]*data-at>[^<]*</time> unless it renews its lease", page)
        site.clock.advance(31)
        assert STEP.findall(await shown(acme, job_id))[-1] == ("now", "Lost by its worker")


async def test_a_time_has_its_year(site: Site) -> None:
    answer = await site.post("/acme/job/thumb/add", json={"payload": "x", "dt": T0 + 3 * YEAR_MS})
    (job_id,) = answer.json["ids"]
    async with visitor(site, "acme") as acme:
        assert re.search(r"deferred until <time [^>]*>14 Jan 2030 08:00:00 UTC</time>", await shown(acme, job_id))


async def test_all_children_can_be_seen(site: Site) -> None:
    (parent,) = await site.add("x")
    await claim(site)
    children = await site.add(*map(str, range(70)), path=f"/acme/job/part/add?parent={parent}")
    await site.intake.flush()
    async with visitor(site, "acme") as acme:
        first = await shown(acme, parent)
        link = re.search(r'<a rel="next" href="([^"]+)"', first)
        assert link
        rest = await shown(acme, parent, link[1].partition(parent)[2])
        assert 'rel="next"' not in rest
        assert "First page" in rest
        assert "First page" not in first
        seen = [*JOB_ROW.findall(first), *JOB_ROW.findall(rest)]
        assert sorted(seen) == sorted(children)


async def test_a_round_that_ended_well_is_followed_by_another_and_not_by_an_attempt(site: Site) -> None:
    (job_id,) = await site.add("x", path="/acme/job/thumb/add?repeat=FINISHED,%20%2B1%20HOUR")
    token = await claim(site)
    ok = Outcome(Code.OK, 200, T0)
    await site.store.release_jobs("a7", [Rearm(job_id, token, T0 + 3_600_000, ok)], now_ms=T0)
    async with visitor(site, "acme") as acme:
        page = await shown(acme, job_id)
        assert STEP.findall(page)[-1] == ("next", "Next round")
        assert "repeats: FINISHED, +1 HOUR" in page
        assert "it repeats (FINISHED, +1 HOUR), and its next round is at <time" in page
        assert "<dt>Attempts</dt>" not in page
        site.clock.advance(3600)
        token = await claim(site)
        now_ms = site.clock.now_ms()
        error = Outcome(Code.ERROR, 500, now_ms)
        await site.store.release_jobs("a7", [Retry(job_id, token, now_ms + 9000, error)], now_ms=now_ms)
        assert STEP.findall(await shown(acme, job_id))[-1] == ("next", "Next attempt")


async def test_the_last_attempt_of_a_job_that_has_ended_is_not_among_the_earlier_ones(site: Site) -> None:
    (job_id,) = await site.add("x")
    token, error = await claim(site), Outcome(Code.ERROR, 500, T0)
    await site.store.release_jobs("a7", [Retry(job_id, token, T0, error)], now_ms=T0)
    async with visitor(site, "acme") as acme:
        assert "Attempts so far" in await shown(acme, job_id)
        token = await claim(site)
        await site.store.release_jobs("a7", [Archive(job_id, token, Outcome(Code.ABANDONED, 504, T0))], now_ms=T0)
        page = await shown(acme, job_id)
        assert "Earlier attempts" in page
        assert "the latest 1" not in page


async def test_a_parent_without_a_delay_was_never_due_later(site: Site) -> None:
    (parent,) = await site.add("x")
    token = await claim(site)
    await site.add("y", path=f"/acme/job/part/add?parent={parent}")
    await site.intake.flush()
    await site.store.release_jobs("a7", [Finish(parent, token, Outcome(Code.OK, 200, T0), b"x")], now_ms=T0)
    site.clock.advance(5)
    await site.run(1, jobtype="acme-part")
    async with visitor(site, "acme") as acme:
        assert "Due" not in [name for _, name in STEP.findall(await shown(acme, parent))]


async def test_there_is_no_handler_to_fix_where_workers_take_the_jobs(site: Site) -> None:
    (job_id,) = await site.add("x")
    await site.run(1, Code.FAILED)
    async with visitor(site, "acme") as acme:
        assert "Fix the handler" in await shown(acme, job_id)
        await site.call("PUT", "/acme/handler/thumb", json={"lang": "worker"})
        assert "Fix the handler" not in await shown(acme, job_id)


async def test_progress_in_percent_is_a_bar(site: Site) -> None:
    (job_id,) = await site.add("x")
    await claim(site)
    async with visitor(site, "acme") as acme:
        site.control.glimpses["acme", job_id] = (b"", b"25.333333")
        page = await shown(acme, job_id)
        assert '<progress max="100" value="25.3"' in page
        assert "25.3 %" in page
        assert '<div class="banner">' not in page, "nothing to worry about"
        site.control.glimpses["acme", job_id] = (b"", b'"reading <b>"')
        page = await shown(acme, job_id)
        assert ("<progress" in page, "reading &lt;b&gt;" in page) == (False, True)
