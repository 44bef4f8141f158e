"""The command line against the service: every route of the interface has a command, and each says what it did."""

import argparse
import asyncio
import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from functory.cli.answers import moment
from functory.cli.arguments import moment_ms
from functory.cli.main import main
from functory.cli.table import render_table
from functory.cli.work import lease
from functory.tenant_limits import TenantLimits
from functory.web.app import ROUTES
from functory.wire.scopes import LIMITS, Scope
from store.base import Code, DeleteReport, Outcome, Retry
from tests.support.command_tours import use_alerts, use_secrets, use_webhooks
from tests.support.terminal import Terminal, given_input
from tests.support.web import SYSID, T0, Site

NO_COMMAND = {
    "/jobber/queue",
    "/add",
    "/{tenant}/handler/add/{type}/add",
    "/{tenant}/handler/get/{type}",
    "/{tenant}/handler/del/{type}/delete",
    "/docs",
    "/{tenant}/in/{webhook}",
}
"""Paths of older systems, the page for people, and where others post."""


async def routes_called(site: Site) -> set[tuple[str, str]]:
    text = (await site.get("/metrics", key="operator")).body.decode()
    return set(re.findall(r'functory_http_requests_total\{method="([A-Z]+)",path="([^"]+)",status="2', text))


async def use_handlers(terminal: Terminal, folder: Path) -> None:
    (folder / "x.py").write_text("return payload")
    (folder / "before.py").write_text("import json")
    put = ["handler", "put", "thumb", str(folder / "x.py"), "--before", str(folder / "before.py"), "--env", "A=1"]
    put += ["--option", "max_batch=5", "--timeout-s", "5", "--memory-mb", "64", "--eid", "e"]
    put += ["--then", "mail", "--on-failure", "alarm", "--keep", "failed", "--domain", "api"]
    assert "version 1 is active" in await terminal.run(*put)
    handler = json.loads(await terminal.run("handler", "get", "thumb", "--json"))["handler"]
    assert (handler["before"], handler["env"], handler["options"]) == ("import json", {"A": "1"}, {"max_batch": 5})
    assert (handler["timeout_s"], handler["memory_mb"], handler["eid"]) == (5.0, 64, "e")
    chained = (handler["then"], handler["on_failure"], handler["keep"], handler["domain"])
    assert chained == ("mail", "alarm", "failed", "api")
    (folder / "jobs").write_text('{"type": "mail", "payload": "x"}\n{"type": "audit", "payload": {"n": 1}}\n')
    assert json.loads(await terminal.run("job", "create", str(folder / "jobs"), "--json"))["count"] == 2
    for words in ("list", "versions thumb", "rollback thumb 1", "invoke thumb"):
        await terminal.run("handler", *words.split())


async def use_jobs(site: Site, terminal: Terminal) -> None:
    run = terminal.run
    add = (
        "job",
        "add",
        "thumb",
        "a",
        "b",
        "--priority",
        "1000",
        "--domain",
        "api",
        "--job-key",
        "ada",
        "--options",
        '{"n": 1}',
    )
    ids = json.loads(await run(*add, "--json"))["ids"]
    await run("job", "add", "thumb", "c", "--unique", "u", "--repeat", "FINISHED, +1 HOUR", "--ack", "store")
    await run("job", "add", "thumb", "d", "--delay-s", "60", "--idempotency-key", "k", "--indexed")
    job = json.loads(await run("job", "get", ids[0], "--json"))
    assert (job["priority"], job["domain"], job["key"], job["options"]) == (1000, "api", "ada", {"n": 1})
    await run("job", "why", ids[0])
    await run("job", "children", ids[0])
    await site.run(10, Code.FAILED, result=b"oh", fingerprint="f", message="oh")
    assert await run("job", "result", ids[0]) == "oh"
    both = await run("job", "wait", *ids, status=1)
    assert [line.split()[:3] for line in both.splitlines()[2:]] == [[job_id, "archived", "failed"] for job_id in ids]
    await run("job", "retry", ids[0], "--delay-s", "5", "--type", "other")
    await run("job", "cancel", ids[0])
    await run("job", "logs", ids[0])
    await run("job", "delete", ids[0])
    (waiting,) = json.loads(await run("job", "add", "thumb", "a", "--delay-s", "60", "--json"))["ids"]
    assert "other" in await run("job", "update", waiting, "other")
    for words in (
        "results --since 2h", "job list --state deferred", "job schedules --limit 5", "scoreboard", "limits",
        "timeline", "failures", "replay --dry-run",
        "cancel thumb --state deferred --limit 5 --yes", "delete thu* --code cancelled --dry-run",
        "type pause thumb", "type resume thumb", "type index thumb", "rate set api 5 --burst 2", "rate list",
        "rate get api", "rate rm api", "health", "health --live", "handler rm thumb",
    ):  # fmt: skip
        await run(*words.split())


async def use_workers(site: Site, terminal: Terminal) -> None:
    run = terminal.run
    await site.call("PUT", "/acme/handler/resize", json={"lang": "worker"})
    assert "No jobs." in await run("work", "take", "resize", status=1)
    await site.add("a", "b", "c", path="/acme/job/resize/add")
    await site.intake.flush()
    site.workers.wake()
    shown = await run("work", "take", "res*", "--limit", "2", "--lease-s", "60", "--name", "by hand")
    first, second = [word for word in shown.split() if "Z-" in word]
    assert "gets no more jobs" in await run("work", "drain", "by hand")
    assert "by hand (draining)" in await run("work", "list")
    assert "gets jobs again" in await run("work", "drain", "by hand", "--undo")
    assert "ok" in await run("work", "renew", first, second, "--lease-s", "90")
    assert "ok" in await run("work", "report", first, "--progress", "40", "--log", "half")
    assert "ok failed: it is broken" in await run("work", "report", first, "failed", "--result", "it is broken")
    assert "late" in await run("work", "report", first, "ok", status=5)
    assert "ok" in await run("work", "return", second)
    site.workers.wake()
    third = next(word for word in (await run("work", "take", "resize")).split() if "Z-" in word)
    assert "is a job of type other now" in await run(
        "work", "move", third, "other", "--delay-s", "60", "--payload", "x"
    )
    assert "Nothing" in await run("work", "return", "--goodbye", "by hand")
    shown = await run("work", "list")
    assert "resize" in shown
    assert "by hand" not in shown, "it said goodbye"
    await use_a_worker_with_children(site, terminal)


async def use_a_worker_with_children(site: Site, terminal: Terminal) -> None:
    run = terminal.run

    async def take() -> tuple[str, str]:
        await site.intake.flush()
        site.workers.wake()
        shown = await run("work", "take", "album")
        return shown, next(word for word in shown.split() if "Z-" in word)

    await site.call("PUT", "/acme/handler/album", json={"lang": "worker"})
    site.workers.changed("acme")
    await site.add("a", path="/acme/job/album/add")
    shown, parent = await take()
    assert "children" not in shown
    await site.add("b", path=f"/acme/job/album/add?parent={parent.rpartition(':')[0]}")
    await site.intake.flush()
    await run("work", "report", parent, "ok")
    _, child = await take()
    await run("work", "report", child, "failed", "--result", "no")
    shown, again = await take()
    assert "children" in shown
    assert "1 failed" in shown
    await run("work", "report", again, "ok")


async def use_consumers(site: Site, terminal: Terminal) -> None:
    run = terminal.run
    put = "consumer put verify block --max-processing 5 --max-search-ahead 9 --start-index 2 --on-failed skip"
    assert "verify works on block" in await run(*put.split(), "--on-progress", "told")
    assert "goes on with" in await run("consumer", "put", "verify", "block", "--start-index", "2")
    await site.add("a", "b", "c", path="/acme/job/block/add")
    await site.intake.flush("acme")
    shown = await run("consumer", "get", "verify")
    assert "verify works on block: 1 of 3 processed, 2 to go" in shown
    assert "waits for index 2: job" in shown
    assert "verify" in await run("consumer", "list")
    assert "No daemon leads it yet." in await run("consumer", "check", "verify")
    assert "is stopped" in await run("consumer", "stop", "verify")
    assert "is running" in await run("consumer", "start", "verify")
    assert "2 jobs entered the queue" in await run("consumer", "rm", "verify")


async def use_tenants(site: Site, terminal: Terminal) -> None:
    other = await site.store.reserve_sysid(info="{}", lease_ms=60_000, now_ms=T0)
    site.control.sysid = other.sysid  # so that this daemon is in the store, as a real one is
    for words in (
        "tenant create shop --weight 2 --limit max_jobs=10", "tenant list", "tenant show shop",
        "tenant change shop --limit network=true", "tenant suspend shop", "tenant resume shop",
        "tenant pause-type shop x", "tenant resume-type shop x", "daemon list", "daemon pause", "daemon resume",
        f"daemon pause {other.sysid}", f"daemon resume {other.sysid}", "audit --of shop", "metrics", "daemon quit",
    ):  # fmt: skip
        await terminal.run(*words.split(), who="operator")
    await terminal.status("daemon", "health", who="operator")
    shop = json.loads(await terminal.run("tenant", "show", "shop", "--json", who="operator"))
    assert (shop["weight"], shop["limits"]["max_jobs"], shop["limits"]["network"]) == (2, 10, True)
    for owner, scope in (("shop", "read"), ("-", "metrics")):
        create = ("key", "create", owner, "--scope", scope, "--label", "x", "--expires-s", "60", "--json")
        key = json.loads(await terminal.run(*create, who="operator"))
        assert key["scopes"] == [scope]
        rotate = ("key", "rotate", owner, key["id"], "--expires-s", "30", "--json")
        rotated = json.loads(await terminal.run(*rotate, who="operator"))
        assert rotated["expires_ms"] - rotated["created_ms"] == 30_000
        await terminal.run("key", "revoke", owner, rotated["id"], who="operator")
        await terminal.run("key", "list", owner, who="operator")
    assert "deleted" in await terminal.run("tenant", "delete", "shop", "--yes", who="operator")


async def test_every_route_has_a_command(site: Site, terminal: Terminal, tmp_path: Path) -> None:
    await use_handlers(terminal, tmp_path)
    await use_jobs(site, terminal)
    await use_workers(site, terminal)
    await use_consumers(site, terminal)
    await use_tenants(site, terminal)
    await use_secrets(terminal, tmp_path)
    await use_alerts(terminal)
    await use_webhooks(terminal)
    feed = (await terminal.run("job", "add", "feed", "x", "--repeat", "FINISHED, +1 HOUR", "--ack", "store")).split()[0]
    for words in (["pause", feed], ["resume", feed], ["next-times", "FINISHED, +1 HOUR"]):
        assert await terminal.run("job", *words)
    missing = {(route.method, route.path) for route in ROUTES if route.path not in NO_COMMAND}
    missing -= await routes_called(site)
    assert missing == {("GET", "/openapi.json")}, "`functory openapi` needs no server"


async def test_deleting_a_tenant_asks(site: Site, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    await terminal.run("tenant", "create", "shop", who="operator")
    again = await terminal.run("tenant", "create", "shop", who="operator", status=5)
    assert "the name shop is already taken: `functory key create shop` makes a key for it" in again
    shown = await terminal.run("tenant", "delete", "shop", who="operator", status=2)
    assert "with all its jobs" in shown
    assert "--yes" in shown
    assert "shop" in await terminal.run("tenant", "list", who="operator")


async def test_a_name_whose_former_tenant_is_still_being_removed_is_told_so(
    site: Site, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def some_are_left(*_: Any, **__: Any) -> DeleteReport:
        return DeleteReport(1000, more=True)

    monkeypatch.setattr(site.store, "delete_tenant", some_are_left)
    told = await terminal.run("tenant", "create", "shop", who="operator", status=5)
    assert "what another tenant of the name shop left is still being removed: try again" in told
    assert "key create" not in told


async def test_numbers_and_lists_read_as_people_write_them(terminal: Terminal) -> None:
    await terminal.run("tenant", "create", "shop", "--limit", "network=true", who="operator")
    assert "network=true" in await terminal.run("tenant", "list", who="operator")
    told = await terminal.run("audit", "--of", "shop", who="operator")
    assert "scopes=submit,read,manage,handlers,work" in told
    assert "None" not in told
    assert "with 1 record." in await terminal.run("tenant", "delete", "shop", "--yes", who="operator")


async def test_adding_nothing_is_an_error(terminal: Terminal) -> None:
    async with given_input(b""):
        assert "No payload" in await terminal.run("job", "add", "thumb", status=2)


async def test_jobs_without_a_handler_get_a_hint(terminal: Terminal) -> None:
    assert "functory handler put thumb FILE" in await terminal.run("job", "add", "thumb", "x")


async def test_results_are_shown_when_they_were_waited_for(site: Site, terminal: Terminal) -> None:
    await site.call("PUT", "/acme/handler/thumb?lang=sh", data=b"cat")
    (job_id,) = await site.add("x")
    await site.run(1, result=b'{"hello":"Ada"}')
    shown = await terminal.run("job", "wait", job_id)
    assert '{"hello":"Ada"}' in shown


async def test_waiting_is_not_silent_while_a_job_is_tried_again(site: Site, terminal: Terminal) -> None:
    (job_id,) = await site.add("x")
    await site.intake.flush("acme")
    (job,) = await site.store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=9000, now_ms=T0)
    outcome = Outcome(Code.ERROR, 500, T0, message="KeyError: 'x'", result=b"Traceback")
    await site.store.release_jobs(SYSID, [Retry(job.id, job.token, T0 + 60_000, outcome)], now_ms=T0)
    shown = await terminal.run("job", "wait", job_id, "--timeout-s", "0.01", status=9)
    assert "attempt 1 ended with error: KeyError: 'x'" in shown
    assert f"the next is at {moment(T0 + 60_000)}" in shown, (
        "a time in the reader's zone, not as the interface writes it"
    )
    assert "attempts so far" in shown
    assert "Traceback" in shown


async def test_a_closed_pipe_is_no_traceback(site: Site) -> None:
    environ = {**os.environ, "FUNCTORY_URL": site.url, "FUNCTORY_KEY": site.keys["acme"], "FUNCTORY_TENANT": "acme"}
    await site.add(*["x" * 50] * 900)
    await site.intake.flush("acme")
    for command in ("--help", "results --state waiting --limit 900"):
        shell = f"{shlex.quote(sys.executable)} -m functory {command} | true; exit ${{PIPESTATUS[0]}}"
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", shell, env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        _, errors = await process.communicate()
        assert (process.returncode, errors) == (0, b""), command


def test_outcomes_have_colour_only_on_a_terminal() -> None:
    rows = [("a", "ok"), ("bb", "failed"), ("c", "-")]
    plain = render_table(["id", "code"], rows, coloured=False)
    assert "\x1b" not in plain
    coloured = render_table(["id", "code"], rows, coloured=True)
    assert "\x1b[32mok" in coloured
    assert "\x1b[31mfailed" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured).split() == plain.split()


def test_a_lease_is_an_id_and_a_token() -> None:
    assert lease("20270115T080000000Z-a7-000000:3") == ("20270115T080000000Z-a7-000000", 3)
    for text in ("x", "x:", ":1", "x:-1"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not ID:TOKEN"):
            lease(text)


async def test_bulk_commands_go_on_until_no_more_match(site: Site, terminal: Terminal) -> None:
    await site.add(*(str(number) for number in range(7)))
    await site.intake.flush()
    assert "2 jobs cancelled. More match" in await terminal.run("cancel", "thumb", "--limit", "2", "--yes")
    assert await terminal.run("cancel", "thumb", "--limit", "2", "--all", "--dry-run") == "5 jobs match.\n"
    assert await terminal.run("cancel", "thu*", "--limit", "2", "--all", "--yes") == "5 jobs cancelled.\n"
    replayed = await terminal.run("replay", "--code", "cancelled", "--limit", "3", "--all")
    assert replayed == "7 jobs queued again.\n"
    await site.run(10, Code.FAILED)
    assert await terminal.run("delete", "*", "--limit", "3", "--all", "--yes") == "7 jobs deleted.\n"


async def test_a_dry_run_counts_all_if_it_is_asked_to_and_otherwise_says_at_least(
    site: Site, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functory.cli.many_jobs._PAGE", 2)
    await site.add(*(str(number) for number in range(7)))
    await site.intake.flush()
    counted = "At least 3 jobs match. Use --all to count all of them.\n"
    assert await terminal.run("cancel", "thumb", "--limit", "3", "--dry-run") == counted
    assert await terminal.run("cancel", "thu*", "--limit", "3", "--dry-run", "--all") == "7 jobs match.\n"
    listed = json.loads(await terminal.run("cancel", "thu*", "--limit", "3", "--dry-run", "--all", "--json"))
    assert (len(listed["ids"]), listed["matched"], listed["more"], listed["changed"]) == (7, 7, False, 0)
    await site.run(10, Code.FAILED)
    for words in (("delete", "thumb"), ("replay",), ("replay", "--type", "thu*"), ("delete", "*", "--code", "failed")):
        assert await terminal.run(*words, "--limit", "3", "--dry-run") == counted
        assert await terminal.run(*words, "--limit", "3", "--dry-run", "--all") == "7 jobs match.\n"
    late = ("delete", "*", "--until", "1", "--dry-run", "--all")
    assert await terminal.run(*late) == "0 jobs match.\n"


async def test_a_number_that_is_refused_is_told_why(site: Site, terminal: Terminal) -> None:
    for words, says in (
        (("rate", "set", "a", "nan"), "rate_per_s must be a finite number, not nan"),
        (("rate", "set", "a", "0"), "rate_per_s must be at least 0.000001"),
        (("job", "add", "thumb", "x", "--delay-s", "inf"), "delay_s must be a finite number, not inf"),
        (("job", "add", "thumb", "", "--delay-s", "nan"), "delay_s must be a finite number, not nan"),
        (("job", "add", "thumb", "x", "--unique", "\udcff"), "unique holds a lone surrogate"),
        (("job", "get", "\udcff"), "the path holds a lone surrogate"),
    ):
        assert says in await terminal.run(*words, status=2)
    create = ("tenant", "create", "t3", "--limit")
    for limit, says in (
        ("max_jobs=-1", "limits.max_jobs must be at least 0"),
        ("max_jobs=1.5", "limits.max_jobs must be a whole number, not a decimal number"),
        ("requests_per_s=nan", "requests_per_s must be a finite number, not nan"),
    ):
        assert says in await terminal.run(*create, limit, who="operator", status=2)


@pytest.mark.parametrize("since", ["9" * 320 + "d", "9" * 320, "9" * 5000, "36501d", "2w"])
def test_a_time_that_is_none_is_told_so(since: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["failures", "--since", since])
    assert ended.value.code == 2
    assert "is not a time such as 2h" in capsys.readouterr().err


def test_times_ago_are_written_as_durations_of_settings_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000.5)
    assert list(map(moment_ms, ("1.5h", "2 s", "36500d"))) == [994_600_500, 999_998_500, 0]


@pytest.mark.parametrize(
    "text", ["1970-01-02", "1970-01-02 00:00:00", "1970-01-02 00:00:00 UTC", "1970-01-02T00:00:00Z"]
)
def test_times_are_taken_as_they_are_printed(text: str) -> None:
    assert moment_ms(text) == 86_400_000


def test_help_names_every_limit_and_every_scope(capsys: pytest.CaptureFixture[str]) -> None:
    assert TenantLimits.__struct_fields__ == LIMITS
    for words, names in ((("tenant", "create"), TenantLimits.__struct_fields__), (("key", "create"), get_args(Scope))):
        with pytest.raises(SystemExit):
            main([*words, "--help"])
        shown = capsys.readouterr().out
        assert [name for name in names if name not in shown] == []
