"""Who knows of a job what only some have finds it: a unique name, a key, the error of its last run. Over HTTP, in a
terminal and on the pages; and does with all of a failure what is to be done with them."""

import json
import re
from typing import Any

import pytest

from store.base import Code
from tests.support.pages import visitor
from tests.support.terminal import Terminal
from tests.support.web import Site

CLOCK, DISK = "aa11", "bb22"
"""Fingerprints."""


async def ids(site: Site, query: str) -> list[str]:
    """In pages of two."""
    found: list[str] = []
    cursor = ""
    while True:
        answer = await site.get(f"/acme/results?{query}&limit=2{cursor}")
        assert answer.status == 200, answer.body
        found += [job["id"] for job in answer.json["jobs"]]
        if answer.json["cursor"] is None:
            return found
        cursor = f"&cursor={answer.json['cursor']}"


async def fail(site: Site, count: int, fingerprint: str, **more: Any) -> list[str]:
    return await site.run(count, Code.FAILED, fingerprint=fingerprint, message=f"it is {fingerprint}", **more)


async def failures(site: Site) -> dict[str, list[str]]:
    """Three jobs that failed for one reason, one for another, one of another type, and one that went well."""
    await site.add("1", "2", "3", "4", "5")
    await site.add("6", path="/acme/job/mail/add")
    found = {CLOCK: await fail(site, 3, CLOCK), DISK: await fail(site, 1, DISK), "ok": await site.run(1)}
    return found | {"mail": await fail(site, 1, CLOCK, jobtype="acme-mail")}


async def unique(site: Site, name: str, **more: Any) -> str:
    answer = await site.post("/acme/job/thumb/add", json={"payload": "x", "unique": name, **more})
    (job_id,) = answer.json["ids"]
    return str(job_id)


async def test_a_unique_name_is_found_in_any_state_the_live_one_first(site: Site) -> None:
    ended: list[str] = []
    for _ in range(3):
        ended.insert(0, await unique(site, "order-17"))
        await site.run(1)
        site.clock.advance(1)
    live = await unique(site, "order-17", delay_s=60)
    await unique(site, "order-18")
    assert await ids(site, "unique=order-17") == [live, *ended]
    assert await ids(site, "unique=order-17&type=th*") == [live, *ended]
    assert await ids(site, "unique=order-17&state=archived") == ended
    assert await ids(site, "unique=order-17&code=ok") == ended
    assert await ids(site, "unique=order-17&code=failed") == []
    assert await ids(site, f"unique=order-17&since_ms={site.clock.now_ms() - 1500}") == ended[:1]
    assert await ids(site, "unique=order-17&type=mail") == []


async def test_a_key_is_found(site: Site) -> None:
    first, second = await site.add("a", "b", path="/acme/job/thumb/add?key=customer-7")
    await site.add("c", path="/acme/job/thumb/add?key=customer-8")
    await site.intake.flush()
    assert await ids(site, "key=customer-7") == [first, second]
    assert await ids(site, "key=customer-7&state=archived") == []
    dry = await site.post("/acme/cancel", json={"key": "customer-7", "dry_run": True})
    assert (dry.json["matched"], dry.json["changed"]) == (2, 0)
    assert (await site.post("/acme/cancel", json={"key": "customer-7", "type": "m*"})).json["matched"] == 0
    assert (await site.post("/acme/cancel", json={"key": "customer-7"})).json["changed"] == 2
    replayed = await site.post("/acme/replay", json={"key": "customer-7", "codes": ["cancelled"]})
    assert replayed.json["replayed"] == 2
    assert await ids(site, "state=waiting") == [first, second, *await ids(site, "key=customer-8")]


async def test_a_failure_is_listed_replayed_and_deleted_as_such(site: Site) -> None:
    made = await failures(site)
    groups = (await site.get("/acme/failures?type=thumb")).json["failures"]
    assert {group["fingerprint"] for group in groups} == {CLOCK, DISK}
    assert set(await ids(site, f"failure={CLOCK}")) == {*made[CLOCK], *made["mail"]}
    assert set(await ids(site, f"failure={CLOCK}&type=thumb")) == {*made[CLOCK]}
    (job,) = (await site.get(f"/acme/results?failure={DISK}")).json["jobs"]
    assert (job["failure"], job["message"]) == (DISK, f"it is {DISK}")
    request = {"failure": CLOCK, "type": "thumb"}
    dry = await site.post("/acme/replay", json={**request, "dry_run": True, "limit": 2})
    assert (dry.json["matched"], dry.json["replayed"], dry.json["more"]) == (2, 0, True)
    first = await site.post("/acme/replay", json={**request, "limit": 2})
    assert (first.json["replayed"], first.json["more"]) == (2, True)
    assert (await site.post("/acme/replay", json=request)).json["replayed"] == 1
    assert set(await ids(site, "state=waiting")) == {*made[CLOCK]}
    assert set(await ids(site, f"failure={CLOCK}&type=thumb")) == {*made[CLOCK]}, "until they end otherwise"
    await site.run(3)
    assert await ids(site, f"failure={CLOCK}&type=thumb") == []
    deleted = await site.post("/acme/delete", json={"failure": CLOCK})
    assert (deleted.json["changed"], deleted.json["ids"]) == (1, made["mail"])
    assert await ids(site, f"failure={DISK}") == made[DISK]
    audit = (await site.get("/admin/audit", key="operator")).json["events"]
    assert [json.loads(event["detail"])["failure"] for event in audit[:3]] == [CLOCK] * 3


async def test_jobs_that_are_tried_again_after_an_error_are_cancelled_with_it(site: Site) -> None:
    for name in ("one", "two"):
        await unique(site, name)
    await fail(site, 2, CLOCK)
    await site.post("/acme/replay", json={"failure": CLOCK})
    assert (await site.post("/acme/cancel", json={"failure": DISK})).json["matched"] == 0
    assert (await site.post("/acme/cancel", json={"failure": CLOCK})).json["changed"] == 2
    assert len(await ids(site, f"failure={CLOCK}&code=cancelled")) == 2, "their last run ended with it all the same"


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("delete", {}, "name a type, a failure or a key"),
        ("cancel", {}, "name a type, a failure or a key"),
        ("delete", {"failure": "other"}, "has no list: choose its jobs by type and code"),
        ("replay", {"failure": "other"}, "has no list: choose its jobs by type and code"),
        ("replay", {"failure": "a", "key": "b"}, "by one of unique, key, failure"),
        ("cancel", {"key": ""}, "key"),
        ("replay", {"failure": "x" * 65}, "failure"),
    ],
)
async def test_what_cannot_be_chosen_is_refused(site: Site, path: str, body: dict[str, str], told: str) -> None:
    answer = await site.post(f"/acme/{path}", json=body)
    assert (answer.status, told in answer.json["error"]["message"]) == (422, True), answer.body


@pytest.mark.parametrize("query", ["failure=other", "unique=a&key=b", "unique=", "key=%00", "payload_bytes=1025"])
async def test_what_cannot_be_found_is_refused(site: Site, query: str) -> None:
    assert (await site.get(f"/acme/results?{query}")).status == 422


async def test_payloads_begin_in_a_list_if_they_are_asked_for(site: Site) -> None:
    await site.add("ä" * 5000)
    await site.post("/acme/job/thumb/add", json={"payload_base64": "/wD/AP8A"})
    await site.intake.flush()
    text, raw = (await site.get("/acme/results?state=waiting&payload_bytes=5")).json["jobs"]
    assert (text["payload"], text["payload_encoding"], text["payload_bytes"]) == ("ää", "text", 10_000)
    assert (raw["payload"], raw["payload_encoding"], raw["payload_bytes"]) == ("/wD/AP8=", "base64", 6)
    plain = (await site.get("/acme/results?state=waiting")).json["jobs"]
    assert [job["payload"] for job in plain] == [None, None]


async def test_a_terminal_finds_and_replays_a_failure(site: Site, terminal: Terminal) -> None:
    made = await failures(site)
    shown = await terminal.run("failures", "--type", "mail")
    assert f"Its jobs: functory job list --type mail --failure {CLOCK}\n" in shown
    listed = await terminal.run("job", "list", "--failure", CLOCK, "--type", "mail")
    assert made["mail"][0] in listed
    assert re.search(r"message +payload\n", listed)
    assert re.search(rf"it is {CLOCK} +6\n", listed)
    assert await terminal.run("replay", "--failure", CLOCK, "--dry-run") == "4 jobs match.\n"
    assert await terminal.run("replay", "--failure", CLOCK, "--dry-run", "--all", "--limit", "1") == "4 jobs match.\n"
    assert await terminal.run("replay", "--failure", CLOCK, "--type", "mail") == "1 job queued again.\n"
    assert await terminal.run("cancel", "--failure", CLOCK, "--yes") == "1 job cancelled.\n"
    assert await terminal.run("delete", "--failure", DISK, "--yes") == "1 job deleted.\n"
    assert "name a type, a failure or a key" in await terminal.run("delete", "--yes", status=2)


async def test_a_terminal_finds_a_job_by_name_or_key(site: Site, terminal: Terminal) -> None:
    job_id = await unique(site, "order-17", delay_s=60, key="customer-7")
    assert f"{job_id}  thumb  deferred" in await terminal.run("job", "list", "--unique", "order-17")
    assert job_id in await terminal.run("results", "--job-key", "customer-7")
    assert await terminal.run("job", "list", "--unique", "order-18") == "No jobs.\n"
    assert await terminal.run("job", "list", "--unique", "order-17", "--state", "waiting") == "No waiting jobs.\n"


async def test_the_page_of_failures_leads_to_the_jobs_of_each(site: Site) -> None:
    made = await failures(site)
    async with visitor(site, "acme") as acme:
        page = (await acme.get("/ui/t/acme/failures?type=mail")).text
        links = {words: link for link, words in re.findall(r'<a href="([^"]*)">(Jobs|Run again…|Delete…)<', page)}
        links = {words: link.replace("&amp;", "&") for words, link in links.items()}
        jobs = (await acme.get(links["Jobs"])).text
        assert made["mail"][0] in jobs
        assert made[CLOCK][0] not in jobs, "of another type"
        for words, verb in (("Run again…", "Queue 1 job again"), ("Delete…", "Delete 1 job")):
            looked = (await acme.get(links[words])).text
            assert verb in looked
            assert f'name="failure" value="{CLOCK}"' in looked
        form = {"failure": CLOCK, "failed": "yes", "age": "any"}
        await acme.post("/ui/t/acme/delete", {**form, "type": "mail", "look": "1"})
        assert await ids(site, f"failure={CLOCK}&type=mail") == []
        begun = await acme.post("/ui/t/acme/replay", form)
        assert begun.status == 303
    assert set(await ids(site, "state=waiting")) == {*made[CLOCK]}


async def test_the_page_of_jobs_finds_by_name_and_shows_payloads(site: Site) -> None:
    job_id = await unique(site, "order-17", payload="<b>\u202e" + "x" * 500)
    await site.add("other job")
    await site.intake.flush()
    async with visitor(site, "acme") as acme:
        page = (await acme.get("/ui/t/acme/jobs?unique=order-17")).text
        assert (job_id in page, "other job" in page) == (True, False)
        assert "&lt;b&gt;⟨U+202E⟩xxx" in page
        assert "x" * 120 not in page
        ended = (await acme.get("/ui/t/acme/jobs?unique=order-17&state=archived")).text
        assert 'href="/ui/t/acme/jobs?unique=order-17&amp;state=all"' in ended
        refused = await acme.get("/ui/t/acme/jobs?failure=other")
        assert (refused.status, "choose its jobs by type and code" in refused.text) == (422, True)
        both = await acme.get("/ui/t/acme/replay?failure=a&key=b&failed=yes&look=1")
        assert (both.status, "by one of unique, key, failure" in both.text) == (422, True)


async def test_nobody_finds_what_is_anothers(site: Site) -> None:
    await unique(site, "order-17")
    await failures(site)
    for query in ("unique=order-17", f"failure={CLOCK}"):
        assert (await site.get(f"/other/results?{query}", key="other")).json["jobs"] == []
    assert (await site.post("/other/delete", json={"failure": CLOCK}, key="other")).json["matched"] == 0
