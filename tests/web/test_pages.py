"""What the pages show and do, without a browser: lists, filters, editor, replay, the operator's pages, live parts."""

import asyncio
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from functory.web.http.settings import WebSettings
from store.base import Code, DeleteReport, Outcome, Retry
from store.errors import StoreUnavailable
from tests.support.pages import Visitor, next_part, visitor
from tests.support.web import T0, Site, open_site

ROW = re.compile(r'<tr data-key="([^"]+)"><th')


async def types_shown(visit: Visitor, query: str = "") -> list[str]:
    page = await visit.get(f"/ui/t/acme{query}")
    assert page.status == 200, page.text
    return ROW.findall(page.text)


async def test_the_front_door_leads_to_the_own_scoreboard(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        assert (await acme.get("/")).location == "/ui"
        assert (await acme.get("/ui")).location == "/ui/t/acme"
    async with visitor(site, "operator") as operator:
        assert (await operator.get("/ui")).location == "/ui/operator"


async def test_an_empty_scoreboard_shows_the_first_commands_with_the_tenants_names(site: Site) -> None:
    async with visitor(site, "acme") as acme:
        page = await acme.get("/ui/t/acme")
        assert f"{site.url}/acme/job/hello/add" in page.text


async def test_a_pattern_of_types_that_is_too_long_is_refused_with_the_limit(site: Site) -> None:
    await site.add("x")
    async with visitor(site, "acme") as acme:
        for path in ("jobs?state=waiting&type=", "failures?type="):
            page = await acme.get(f"/ui/t/acme/{path}{'*' * 7500}")
            words = "pattern of types has at most 127 characters, and this one has 7500"
            assert (page.status, words in page.text) == (422, True), path
        assert (await acme.get(f"/ui/t/acme/jobs?state=waiting&type={'*' * 127}")).status == 200


async def test_rows_are_sorted_filtered_and_cut_on_the_server(site: Site) -> None:
    for number in range(60):
        await site.add(*["x"] * (number % 7 + 1), path=f"/acme/job/type{number:02d}/add")
    await site.call("PUT", "/acme/handler/type03?lang=sh", data=b"cat")
    await site.post("/acme/type/type04/pause")
    await site.run(2, Code.FAILED, jobtype="acme-type05", fingerprint="f", message="no luck")
    async with visitor(site, "acme") as acme:
        first = await types_shown(acme)
        assert first == [f"type{n:02d}" for n in range(50)]
        assert await types_shown(acme, "?from=50") == [f"type{n:02d}" for n in range(50, 60)]
        assert (await types_shown(acme, "?sort=-type"))[:2] == ["type59", "type58"]
        by_waiting = await types_shown(acme, "?sort=waiting")
        assert by_waiting[:3] == ["type06", "type13", "type20"]
        assert (await types_shown(acme, "?sort=-waiting"))[0] == "type00"
        assert (await types_shown(acme, "?sort=failed"))[0] == "type05"
        assert (await types_shown(acme, "?sort=rate"))[0] == "type05"
        assert await types_shown(acme, "?q=PE1") == [f"type1{n}" for n in range(10)]
        assert await types_shown(acme, "?show=failing") == ["type05"]
        assert await types_shown(acme, "?show=paused") == ["type04"]
        assert "type03" not in await types_shown(acme, "?show=no_handler")
        assert await types_shown(acme, "?sort=nonsense&show=nonsense&from=nonsense") == first


async def test_the_counts_of_a_row_are_those_of_the_last_hour(site: Site) -> None:
    await site.add(*"abc")
    await site.run(2)
    site.clock.advance(3700)
    await site.run(1, Code.FAILED)
    async with visitor(site, "acme") as acme:
        page = (await acme.get("/ui/t/acme")).text
        row = page.partition('data-key="thumb"')[2].partition("</tr>")[0]
        assert re.findall(r"<td[^>]*>([\d,]+)</td>", row)[:6] == ["0", "0", "0", "0", "0", "1"], (
            "waiting running deferred ok retry failed"
        )


async def test_failures_lead_to_an_example(site: Site) -> None:
    (job_id,) = await site.add("x")
    await site.run(1, Code.FAILED, result=b"Traceback\nKeyError: 'a'", fingerprint="f", message="KeyError: 'a'")
    async with visitor(site, "acme") as acme:
        for path in ("/ui/t/acme", "/ui/t/acme/failures", "/ui/t/acme/type/thumb"):
            page = await acme.get(path)
            assert f'href="/ui/t/acme/job/{job_id}?type=thumb' in page.text, path
            assert "KeyError: &#39;a&#39;" in page.text, path
        assert "Traceback" in (await acme.get(f"/ui/t/acme/job/{job_id}")).text


async def test_a_job_page_says_why_it_waits_and_lets_one_act(site: Site) -> None:
    (job_id,) = await site.add("x")
    async with visitor(site, "acme") as acme:
        page = await acme.get(f"/ui/t/acme/job/{job_id}")
        assert "its type has no handler: register one" in page.text
        assert (await acme.post(f"/ui/t/acme/job/{job_id}/cancel")).location.endswith("?note=cancelled")
        assert "cancelled" in (await acme.get(f"/ui/t/acme/job/{job_id}")).text
        assert (await acme.post(f"/ui/t/acme/job/{job_id}/cancel")).status == 303, "cancelled already"
        assert (await acme.post(f"/ui/t/acme/job/{job_id}/retry")).location.endswith("?note=retried")
        assert (await acme.post(f"/ui/t/acme/job/{job_id}/retry")).status == 409


async def test_a_job_that_only_the_journal_has_is_shown(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    (job_id,) = await site.add("x")
    site.intake.is_down = True
    async with visitor(site, "acme") as acme:
        page = await acme.get(f"/ui/t/acme/job/{job_id}")
        assert "Waiting to be stored" in page.text


async def test_the_editor_tries_saves_and_keeps_what_was_typed_when_it_is_wrong(site: Site) -> None:
    form = {"lang": "python", "body": "return 1\r\n", "payload": "p", "more": "{}", "timeout_s": "5"}
    async with visitor(site, "acme") as acme:
        edit = "/ui/t/acme/type/thumb/edit"
        tried = await acme.post(edit, {**form, "do": "try"})
        assert "echo p" in tried.text
        assert "mail?unique=daily | " in tried.text, "the jobs that it would have made"
        assert "echo p" in (await acme.post(edit, form)).text, "only the button that says so saves"
        assert await site.store.get_handler("acme", "acme-thumb") is None, "a try stores nothing"
        wrong = await acme.post(edit, {**form, "body": "syntax error", "do": "save"})
        assert wrong.status == 422
        assert "Line 3, column 7" in wrong.text
        assert ">\nsyntax error</textarea>" in wrong.text
        for change in ({"more": "[1"}, {"more": '{"lang": "sh"}'}, {"timeout_s": "soon"}, {"lang": "cobol"}):
            assert (await acme.post(edit, {**form, **change, "do": "save"})).status == 422, change
        saved = await acme.post(edit, {**form, "more": '{"env": {"A": "b"}}', "do": "save"})
        assert saved.location == "/ui/t/acme/type/thumb?note=saved"
        stored = await site.store.get_handler("acme", "acme-thumb")
        assert stored is not None
        kept = json.loads(stored.data)
        assert (kept["body"], kept["env"], kept["timeout_s"]) == ("return 1\n", {"A": "b"}, 5.0)
        again = await acme.post(edit, {**form, "more": '{"env": {"A": "b"}}', "do": "save"})
        assert again.location.endswith("?note=unchanged")
        await acme.post(edit, {**form, "body": "return 2\n", "do": "save"})
        changes = (await acme.get("/ui/t/acme/type/thumb/version/2")).text
        assert '<li class="d-removed">-return 1</li>' in changes
        assert '<li class="d-added">+return 2</li>' in changes
        for nothing in ("9", "2?against=9"):
            assert (await acme.get(f"/ui/t/acme/type/thumb/version/{nothing}")).status == 404
        size = f"with settings {len(stored.data)} B"
        assert size in (await acme.get("/ui/t/acme/type/thumb/version/1")).text
        back = await acme.post("/ui/t/acme/type/thumb/rollback", {"version": "1"})
        assert back.location.endswith("?note=rolled_back")
        new = await acme.post("/ui/t/acme/new", {**form, "type": "fresh", "do": "save"})
        assert new.location == "/ui/t/acme/type/fresh?note=saved"
        assert (await acme.post("/ui/t/acme/new", {**form, "type": "no good", "do": "save"})).status == 422


async def test_a_payload_that_is_no_text_is_tried_byte_for_byte(site: Site) -> None:
    answer = await site.post("/acme/job/thumb/add", json={"payload_base64": "/wD+"})
    (job_id,) = answer.json["ids"]
    await site.run()
    await site.call("PUT", "/acme/handler/thumb?lang=sh", data=b"cat")
    async with visitor(site, "acme") as acme:
        page = await acme.get(f"/ui/t/acme/type/thumb/edit?job={job_id}")
        assert f'name="payload_of" value="{job_id}"' in page.text
        form = {"lang": "sh", "body": "cat", "payload": "", "payload_of": job_id, "do": "try"}
        tried = await acme.post("/ui/t/acme/type/thumb/edit", form)
        assert "65 63 68 6f 20 ff 00 fe" in tried.text, "echo, and the very bytes"


async def test_a_replay_is_looked_at_run_and_watched(site: Site) -> None:
    await site.add(*"abcde")
    await site.run(3, Code.FAILED)
    await site.run(2)
    async with visitor(site, "acme") as acme:
        query = "type=thumb&failed=yes&age=1d&limit=2&rate_per_s=1&look=1"
        looked = await acme.get(f"/ui/t/acme/replay?{query}")
        assert "2 jobs match" in looked.text
        assert "and more: raise the limit" in looked.text
        assert len((await site.get("/acme/results?code=failed")).json["jobs"]) == 3, "nothing has changed"
        form = {"type": "thumb", "failed": "yes", "age": "1d", "limit": "2", "rate_per_s": "1"}
        begun = await acme.post("/ui/t/acme/replay", form)
        watched = await acme.get(begun.location)
        assert "0 of 2 finished" in watched.text
        site.clock.advance(2)
        await site.run(2)
        watched = await acme.get(begun.location)
        assert "2 of 2 finished" in watched.text
        assert "None failed" in watched.text
        nothing = await acme.post("/ui/t/acme/replay", {**form, "type": "never"})
        assert nothing.location == "/ui/t/acme/replay?note=nothing_to_replay"
        for wrong in ({"limit": "0"}, {"limit": "x"}, {"rate_per_s": "-1"}, {"age": "2d"}, {"type": "a b"}):
            assert (await acme.post("/ui/t/acme/replay", {**form, **wrong})).status == 422, wrong
        async with visitor(site, "other") as other:
            run = begun.location.rpartition("/")[2].partition("?")[0]
            assert (await other.get(f"/ui/t/other/replay/{run}")).status == 404, "another tenant's run"


async def test_the_operator_steers_tenants_and_daemons(site: Site) -> None:
    daemon = await site.store.reserve_sysid(
        info='{"isolation": "L1", "role": "run", "host": "<b>", "gauges": {"slots": 4}}', lease_ms=9_000_000, now_ms=T0
    )
    await site.add(*"ab")
    await site.run(1)
    async with visitor(site, "operator") as operator:
        page = await operator.get("/ui/operator")
        assert "runs at isolation L1" in page.text
        assert "&lt;b&gt;" in (await operator.get("/ui/operator/daemons")).text
        assert (await operator.post(f"/ui/operator/daemons/{daemon.sysid}/pause")).status == 303
        assert (await site.store.list_daemons(now_ms=T0))[0].paused
        assert (await operator.post(f"/ui/operator/daemons/{daemon.sysid}/nonsense")).status == 404
        assert "thumb" in (await operator.get("/ui/operator/queues")).text
        assert (await operator.get("/ui/operator/queues?q=nothing")).status == 200
        form = {"weight": "9", "max_jobs": "12", "requests_per_s": "2.5", "network": "yes", "max_package_bytes": "7"}
        assert (await operator.post("/ui/operator/tenants/acme", form)).status == 303
        tenant = await site.store.get_tenant("acme")
        assert tenant is not None
        assert (tenant.weight, json.loads(tenant.limits)) == (
            9,
            {"max_jobs": 12, "requests_per_s": 2.5, "network": True, "max_package_bytes": 7},
        )
        for wrong in ({"weight": "0"}, {"weight": "1", "max_jobs": "-4"}, {"weight": "1", "max_jobs": "many"}):
            assert (await operator.post("/ui/operator/tenants/acme", wrong)).status == 422, wrong
        for name in ("ui", "Nope", ""):
            assert (await operator.post("/ui/operator/tenants", {"name": name})).status == 422, name
        assert (await operator.post("/ui/operator/tenants", {"name": "acme"})).status == 409
        made = await operator.post("/ui/operator/tenants/acme/keys", {"read": "yes", "label": "l"})
        key = re.search(r"fk_\w+_[\w-]+", made.text)
        assert key
        assert (await site.get("/acme/scoreboard", key=key[0])).status == 200
        assert key[0] not in (await operator.get("/ui/operator/tenants/acme")).text, "shown once"
        assert "tenant.update" in (await operator.get("/ui/operator/audit?tenant=acme")).text


async def test_what_a_form_changed_is_seen_at_once_although_pages_are_cached(site: Site) -> None:
    await site.add("x")
    async with visitor(site, "acme") as acme:
        assert "Resume" not in (await acme.get("/ui/t/acme/type/thumb")).text
        await acme.post("/ui/t/acme/type/thumb/pause")
        assert "Resume" in (await acme.get("/ui/t/acme/type/thumb")).text


async def test_an_error_is_a_page_that_says_what_to_do(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async with visitor(site, "acme") as acme:
        page = await acme.get("/ui/t/acme/jobs?cursor=nonsense")
        assert (page.status, "<html" in page.text) == (422, True)

        async def away(*_: object, **__: object) -> None:
            raise StoreUnavailable("no answer from db7.internal")

        monkeypatch.setattr(site.store, "list_jobs", away)
        page = await acme.get("/ui/t/acme/jobs")
        assert page.status == 503
        assert "db7.internal" not in page.text
        assert page.headers["Retry-After"]


async def test_a_live_part_is_sent_when_it_changes_and_ends_with_the_session(tmp_path: Path) -> None:
    settings = WebSettings(port=0, shutdown_s=1.0, live_tick_s=0.01)
    async with open_site(tmp_path, settings=settings) as site, visitor(site, "acme") as acme:
        await site.add("x")
        async with acme.session.get(f"{site.url}/ui/t/acme/jobs/~live?state=waiting") as one:
            async with acme.session.get(f"{site.url}/ui/t/acme/jobs/~live?state=waiting") as other:
                assert one.content_type == "text/event-stream"
                for answer in (one, other):
                    assert "No jobs in this state" in await next_part(answer)
                await site.intake.flush()
                for answer in (one, other):
                    assert "thumb" in await next_part(answer)
            await acme.post("/ui/signout")
            await site.add("y")
            await site.intake.flush()
            async with asyncio.timeout(30):
                while await one.content.readline():
                    pass  # until the stream ends, because the reader is not signed in any more


async def test_stopping_ends_live_pages_at_once(tmp_path: Path) -> None:
    settings = WebSettings(port=0, shutdown_s=60.0)
    async with (
        open_site(tmp_path, settings=settings) as site,
        visitor(site, "acme") as acme,
        acme.session.get(f"{site.url}/ui/t/acme/~live") as answer,
    ):
        await next_part(answer)
        async with asyncio.timeout(30):
            await site.listener.stop()
        with suppress(aiohttp.ClientError):
            await answer.content.read()


async def test_a_job_that_is_tried_again_offers_a_fix_and_a_run_now(site: Site) -> None:
    (job_id,) = await site.add("x")
    await site.intake.flush("acme")
    (job,) = await site.store.claim_jobs("acme-thumb", 1, owner="a7", lease_ms=9000, now_ms=T0)
    outcome = Outcome(Code.ERROR, 500, T0, 1500, b"Traceback <b>: KeyError", message="KeyError: <b>", handler_version=3)
    await site.store.release_jobs("a7", [Retry(job.id, job.token, T0 + 60_000, outcome)], now_ms=T0)
    async with visitor(site, "acme") as acme:
        page = await acme.get(f"/ui/t/acme/job/{job_id}")
        for text in (
            "Traceback &lt;b&gt;: KeyError",
            "Attempts so far",
            "Fix the handler",
            "Run now",
            "What went wrong",
        ):
            assert text in page.text
        assert "KeyError: <b>" not in page.text
        assert re.search(r"the next is at <time [^>]*data-at>[^<]*</time>", page.text), "in the reader's zone"
        steps = re.findall(r"<b>([^<]*)</b> <time", page.text)
        assert steps[-2:] == ["Ended: error", "Next attempt"], steps
        assert "Due" not in steps, "what comes next is not told before what was"
        assert (await acme.post(f"/ui/t/acme/job/{job_id}/retry")).status in {302, 303}
        assert "Run now" not in (await acme.get(f"/ui/t/acme/job/{job_id}")).text


async def test_a_name_that_is_taken_is_told_beside_the_form(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def some_are_left(*_: Any, **__: Any) -> DeleteReport:
        return DeleteReport(1000, more=True)

    async with visitor(site, "operator") as operator:
        with monkeypatch.context() as before:
            before.setattr(site.store, "delete_tenant", some_are_left)
            page = await operator.post("/ui/operator/tenants", {"name": "shop"})
            assert page.status == 409
            assert "What another tenant of the name shop left is still being removed: try again." in page.text
        page = await operator.post("/ui/operator/tenants", {"name": "acme"})
        assert page.status == 409
        assert "The name acme is already taken." in page.text
        assert 'value="acme"' in page.text
        page = await operator.post("/ui/operator/tenants", {"name": "UP"})
        assert page.status == 422
        assert "Name must be a lower-case letter" in page.text


async def test_errors_count_as_failed(site: Site) -> None:
    await site.add("x")
    await site.intake.flush("acme")
    (job,) = await site.store.claim_jobs("acme-thumb", 1, owner="a7", lease_ms=9000, now_ms=T0)
    outcome = Outcome(Code.ERROR, 500, T0, message="oh")
    await site.store.release_jobs("a7", [Retry(job.id, job.token, T0 + 60_000, outcome)], now_ms=T0)
    failed = re.compile(r"<dt>Failed · last hour</dt><dd>1</dd>")
    async with visitor(site, "acme") as acme:
        assert failed.search((await acme.get("/ui/t/acme")).text)
        assert failed.search((await acme.get("/ui/t/acme/type/thumb")).text)
        assert "Deferred" in (await acme.get("/ui/t/acme?sort=deferred")).text
    async with visitor(site, "operator") as operator:
        for path in ("/ui/operator", "/ui/operator/queues"):
            assert '<td class="num bad">1</td>' in (await operator.get(path)).text
