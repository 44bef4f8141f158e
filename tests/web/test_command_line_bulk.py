"""The command line against the service: commands about many jobs that take more than one request."""

import json
import signal
from collections.abc import Sequence
from typing import Any

import pytest

from store.base import Code, JobState
from tests.support.terminal import Terminal, at_terminal
from tests.support.web import T0, Site


async def test_replaying_all_goes_on_after_jobs_whose_name_is_taken(site: Site, terminal: Terminal) -> None:
    ids = await site.add("1", "2", "3")
    await site.run(10, Code.FAILED)
    for number in range(4):
        site.clock.advance(1)
        delay_s = 1000 if number == 3 else 0
        await site.post("/acme/job/thumb/add", json={"payload": "u", "unique": "taken", "delay_s": delay_s})
        await site.run(10, Code.FAILED)
    assert "0 jobs queued again. More match: use --all" in await terminal.run("replay", "--limit", "2")
    assert await terminal.run("replay", "--limit", "2", "--all") == "3 jobs queued again.\n"
    states = await site.store.get_states("acme", ids, now_ms=site.clock.now_ms())
    assert set(states.values()) == {JobState.WAITING}


async def test_replaying_all_keeps_to_the_rate_and_leaves_out_what_fails_again(
    site: Site, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await site.add(*(str(number) for number in range(7)))
    await site.run(10, Code.FAILED)
    replay_jobs = site.store.replay_jobs
    due: dict[int, str] = {}

    async def replay_and_fail(tenant: str, chosen: Sequence[str], *, dt_ms: int, now_ms: int) -> Any:
        due[dt_ms] = " ".join(chosen)
        replayed = await replay_jobs(tenant, chosen, dt_ms=dt_ms, now_ms=now_ms)
        site.clock.advance(0.01)
        await site.run(10, Code.FAILED)
        return replayed

    monkeypatch.setattr(site.store, "replay_jobs", replay_and_fail)
    words = ("replay", "--limit", "3", "--all", "--rate-per-s", "1")
    assert await terminal.run(*words) == "7 jobs queued again.\n"
    assert list(due) == [T0 + 1000 * number for number in range(7)]
    assert sorted(due.values()) == sorted(ids), "each of them once"


async def test_schedules_are_left_alone_and_the_answer_says_so(site: Site, terminal: Terminal) -> None:
    await site.add("1", "2", "3")
    await site.add("s", path="/acme/job/thumb/add?unique=n&repeat=FINISHED,%20%2B1%20DAY&delay_s=60")
    hint = " 1 schedule left alone: use --schedules for jobs that repeat, too.\n"
    assert await terminal.run("cancel", "thumb", "--dry-run") == "3 jobs match." + hint
    assert await terminal.run("cancel", "thumb", "--dry-run", "--all", "--limit", "2") == "3 jobs match." + hint
    assert await terminal.run("cancel", "thumb", "--dry-run", "--schedules") == "4 jobs match.\n"
    assert await terminal.run("cancel", "thumb", "--all", "--limit", "2", "--yes") == "3 jobs cancelled." + hint
    assert await terminal.run("cancel", "thumb", "--schedules", "--yes") == "1 job cancelled.\n"
    assert await terminal.run("replay", "--code", "cancelled", "--limit", "1", "--all") == "3 jobs queued again." + hint
    assert await terminal.run("replay", "--code", "cancelled", "--schedules") == "1 job queued again.\n"


async def test_jobs_of_several_states_and_codes_are_listed_together(site: Site, terminal: Terminal) -> None:
    waiting, cancelled = await site.add("x", "y")
    (deferred,) = await site.add("x", path="/acme/job/thumb/add?delay_s=60")
    await site.intake.flush()
    told = await terminal.run("job", "list")
    assert told == "No archived jobs.\nThere are waiting and deferred ones: --state waiting,deferred\n"
    await terminal.run("job", "cancel", cancelled)
    for flags in (["--state", "deferred,waiting"], ["--state", "deferred", "--state", "waiting"]):
        listed = await terminal.run("job", "list", *flags)
        assert listed.index(deferred) < listed.index(waiting)
        assert cancelled not in listed
    listed = await terminal.run("job", "list", "--state", "all")
    assert all(job_id in listed for job_id in (waiting, deferred, cancelled))
    seen, cursor = list[str](), list[str]()
    while not seen or cursor:
        page = json.loads(await terminal.run("job", "list", "--state", "all", "--limit", "1", "--json", *cursor))
        seen += [job["id"] for job in page["jobs"]]
        cursor = ["--cursor", page["cursor"]] if page["cursor"] else []
    assert seen == [waiting, deferred, cancelled]
    for codes in (["cancelled", "--code", "ok"], ["cancelled,ok"]):
        assert cancelled in await terminal.run("job", "list", "--code", *codes)
        assert "1 job matches." in await terminal.run("delete", "thumb", "--dry-run", "--code", *codes)
    assert "More: --cursor" in await terminal.run("job", "list", "--state", "all", "--limit", "1")
    assert waiting not in await terminal.run("job", "list", "--state", "all", "--code", "cancelled")
    assert "limit" in await terminal.run("job", "list", "--limit", "0", status=2)
    wrong = ("--state", "waiting", "--code", "ok")
    assert "--code is the outcome of archived jobs" in await terminal.run("job", "list", *wrong, status=2)


async def test_who_deletes_or_cancels_many_is_asked_with_their_number(site: Site) -> None:
    await site.add(*(str(number) for number in range(1203)))
    await site.intake.flush()
    place = {"url": site.url, "key": site.keys["acme"]}
    async with at_terminal("cancel", "thu*", "--all", **place) as person:
        await person.says(b"Cancel 1,203 unfinished jobs of type thu*? [y/N] ")
        await person.types(b"\n")
        assert await person.end() == (2, b"functory: Not confirmed; nothing was changed.\n")
    async with at_terminal("cancel", "thumb", "--limit", "3", **place) as person:
        await person.says(b"Cancel 3 unfinished jobs of type thumb, and leave more that match? [y/N] ")
        await person.types(b"y\n")
        assert (await person.end())[0] == 0
    async with at_terminal("delete", "thumb", **place) as person:
        await person.says(b"Delete 3 ended jobs of type thumb? [y/N] ")
        person.process.send_signal(signal.SIGINT)
        assert await person.end() == (130, b"")
    async with at_terminal("delete", "thumb", "--code", "ok", **place) as person:
        assert (await person.end())[0] == 0, "there is nothing to ask about"
    counters = await site.store.get_counters("acme", now_ms=site.clock.now_ms())
    assert [(row.waiting, row.cancelled) for row in counters] == [(1200, 3)]


async def test_what_is_not_in_the_question_is_left_alone(site: Site) -> None:
    ids = await site.add("1", "2", "3")
    await site.intake.flush()
    for job_id in ids[:2]:
        await site.post(f"/acme/job/{job_id}/cancel")
    place = {"url": site.url, "key": site.keys["acme"]}
    async with at_terminal("delete", "thumb", "--code", "cancelled", "--all", **place) as person:
        await person.says(b"Delete 2 cancelled jobs of type thumb? [y/N] ")
        site.clock.advance(60)
        await site.post(f"/acme/job/{ids[2]}/cancel")
        await person.types(b"y\n")
        assert (await person.end())[0] == 0
    assert [row["id"] for row in (await site.get("/acme/results")).json["jobs"]] == [ids[2]]
    await site.add("4")
    await site.intake.flush()
    async with at_terminal("cancel", "thumb", "--state", "waiting", "--schedules", **place) as person:
        await person.says(b"Cancel 1 waiting job of type thumb with schedules, which end? [y/N] ")
        await site.add("5")
        await site.intake.flush()
        await person.types(b"y\n")
        assert (await person.end())[0] == 0
    assert len((await site.get("/acme/results?state=waiting")).json["jobs"]) == 1


async def test_all_that_was_asked_about_is_cancelled_and_no_more(site: Site) -> None:
    await site.add("1", "2", "3")
    (deferred,) = await site.add("4", path="/acme/job/thumb/add?delay_s=60")
    await site.intake.flush()
    place = {"url": site.url, "key": site.keys["acme"]}
    words = ("cancel", "thumb", "--all", "--limit", "2", "--state", "waiting")
    async with at_terminal(*words, **place) as person:
        await person.says(b"Cancel 3 waiting jobs of type thumb? [y/N] ")
        site.clock.advance(61)  # another one is waiting by now
        later = await site.add("5", path="/acme/job/thumb/add?priority=1000")
        await site.intake.flush()
        await person.types(b"y\n")
        assert (await person.end())[0] == 0
        assert await person.printed() == b"3 jobs cancelled. More match by now: repeat the command.\n"
    left = {row["id"] for row in (await site.get("/acme/results?state=waiting")).json["jobs"]}
    assert left == {deferred, *later}


@pytest.mark.parametrize("flags", [("cancel", "thumb", "--yes"), ("delete", "thumb", "--yes"), ("replay",)])
async def test_all_comes_to_an_end_while_jobs_are_added(
    site: Site, terminal: Terminal, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    """Each call finds as many new ones as it has changed, at most ten times."""
    await site.add("1", "2", "3")
    if flags[0] != "cancel":
        await site.run(10, Code.FAILED)
    calls = 0

    def with_more(verb: str) -> None:
        change = getattr(site.store, verb)

        async def change_and_add(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            site.clock.advance(1)
            if calls <= 10:
                await site.add("more")
                await site.intake.flush()
                if flags[0] != "cancel":
                    await site.run(10, Code.FAILED)
            return await change(*args, **options)

        monkeypatch.setattr(site.store, verb, change_and_add)

    with_more({"cancel": "cancel_job", "delete": "delete_jobs", "replay": "replay_jobs"}[flags[0]])
    until = [] if flags[0] == "cancel" else ["--until", "2100-01-01"]
    told = await terminal.run(*flags, "--all", "--limit", "1", *until)
    assert told.startswith("3 jobs "), told
    assert calls == 3


async def test_where_nobody_can_be_asked_it_has_to_be_said(site: Site, terminal: Terminal) -> None:
    await site.add("1")
    await site.intake.flush()
    for command in ("cancel", "delete"):
        told = await terminal.run(command, "thumb", status=2)
        assert "no terminal, so nobody can be asked: use --yes. Nothing was changed." in told
    assert await terminal.run("cancel", "thumb", "--yes") == "1 job cancelled.\n"


async def test_a_job_is_held_and_a_type_is_paused(site: Site, terminal: Terminal) -> None:
    await site.call("PUT", "/acme/consumer/verify", json={"source": "block"})
    (job_id,) = await site.add("a", path="/acme/job/block/add")
    await site.intake.flush()
    _, head, _, row = (await terminal.run("scoreboard")).splitlines()
    assert dict(zip(head.split()[:5], row.replace(" (no handler)", "").split()[:5], strict=True))["held"] == "1"
    for word in ("held", "paused"):
        assert await terminal.run("job", "list", "--type", "other", "--state", word) == "No paused or held jobs.\n"
        (row,) = [line for line in (await terminal.run("job", "list", "--state", word)).splitlines() if job_id in line]
        assert " held " in row
        assert await terminal.run("cancel", "block", "--state", word, "--dry-run") == "1 job matches.\n"
    assert "held (waits_for_consumer): " in await terminal.run("job", "why", job_id)
    assert "state        held\n" in await terminal.run("job", "get", job_id)
    assert json.loads(await terminal.run("job", "get", job_id, "--json"))["state"] == "paused", "its name on the wire"
