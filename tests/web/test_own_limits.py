"""Retries and expiry of a single job, over HTTP and on the command line: said, shown, refused."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from functory.client import Client
from store.base import Code, Job, Outcome, Retry
from store.names import MAX_OPTIONS_CHARS
from tests.support.pages import visitor
from tests.support.terminal import Terminal
from tests.support.web import T0, Answer, Site

ADD = "/acme/job/thumb/add"
NDJSON = {"Content-Type": "application/x-ndjson"}
EACH = {"max_attempts": 3, "retry_base_ms": 250, "retry_max_ms": 9000, "retry_window_s": 90, "max_wait_s": 5}
IN_OPTIONS = '{"limits":{"max_attempts":3,"retry_base_ms":250,"retry_max_ms":9000,"retry_window_s":90,"max_wait_s":5}}'
FORMS = ("query", "object", "array", "ndjson", "several")


@pytest.fixture
def terminal(site: Site, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(site, capfd, monkeypatch)


async def post(site: Site, form: str, fields: dict[str, Any]) -> Answer:
    job = {"payload": "x", **fields}
    match form:
        case "query":
            return await site.post(ADD + "?" + "&".join(f"{name}={value}" for name, value in fields.items()), data=b"x")
        case "ndjson":
            return await site.post(ADD, data=json.dumps(job), headers=NDJSON)
        case "several":
            return await site.post("/acme/jobs", json={"jobs": [{"type": "thumb", **job}]})
        case _:
            return await site.post(ADD, json=job if form == "object" else [job])


async def stored(site: Site, job_id: str) -> Job:
    await site.intake.flush()
    record = await site.store.get_job("acme", job_id, now_ms=site.clock.now_ms())
    assert record is not None
    return record.job


async def shown(site: Site, job_id: str) -> dict[str, Any]:
    await site.intake.flush()
    found: dict[str, Any] = (await site.get(f"/acme/job/{job_id}")).json
    return found


@pytest.mark.parametrize("form", FORMS)
async def test_they_are_kept_in_the_options_and_shown_as_fields(site: Site, form: str) -> None:
    answer = await post(site, form, EACH)
    assert answer.status == 200, answer.body
    (job_id,) = answer.json["ids"]
    assert (await stored(site, job_id)).options == IN_OPTIONS
    found = await shown(site, job_id)
    assert {name: found[name] for name in EACH} == EACH
    assert found["options"] == {"limits": EACH}


async def test_a_job_shows_what_it_has_and_no_more(site: Site) -> None:
    plain, one, own = await site.add("x"), await site.add("y", path=f"{ADD}?max_wait_s=60"), IN_OPTIONS
    assert not EACH.keys() & (await shown(site, plain[0])).keys()
    assert {name: value for name, value in (await shown(site, one[0])).items() if name in EACH} == {"max_wait_s": 60}
    for options in ({"max_attempts": 3}, {"a": json.loads(own)}, {"limits": {"max_attempts": 3, "colour": "red"}}):
        (job_id,) = (await site.post(ADD, json={"payload": "x", "options": options})).json["ids"]
        found = await shown(site, job_id)
        assert found["options"] == options
        assert not EACH.keys() & found.keys(), "the tenant's own text"
    listed = (await site.get("/acme/results?state=waiting")).json["jobs"]
    assert [job.get("max_wait_s") for job in listed].count(60) == 1


async def test_they_stand_beside_what_the_tenant_says(site: Site) -> None:
    answer = await site.post(ADD, json={"payload": "x", "options": {"a": [1]}, "max_attempts": 3})
    (job_id,) = answer.json["ids"]
    assert (await stored(site, job_id)).options == '{"limits":{"max_attempts":3},"a":[1]}'
    assert (await shown(site, job_id))["max_attempts"] == 3


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize("form", FORMS)
async def test_a_number_that_cannot_be_is_refused_by_its_name(site: Site, name: str, form: str) -> None:
    wrong: list[Any] = [0, -1, 10**9, 10**30, 1.5, "many", True, [3], {"max": 3}]
    for value in [*wrong, ""] if form == "query" else [*wrong, "3"]:
        answer = await post(site, form, {name: value})
        assert answer.status == 422, (value, answer.body)
        assert answer.json["error"]["detail"]["field"].endswith(name), (value, answer.body)
        assert len(answer.json["error"]["message"]) < 300
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == 0


@pytest.mark.parametrize("form", [form for form in FORMS if form != "query"])
async def test_a_field_and_the_options_cannot_both_say_it(site: Site, form: str) -> None:
    for limits in ({"max_attempts": 3}, {}, "mine", None):
        answer = await post(site, form, {"max_wait_s": 60, "options": {"a": 1, "limits": limits}})
        assert answer.status == 422
        assert answer.json["error"]["detail"]["field"].endswith("max_wait_s")
        assert "use either max_wait_s or options.limits, not both" in answer.json["error"]["message"]
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == 0


async def test_of_a_query_that_says_it_twice_nothing_is_guessed(site: Site) -> None:
    answer = await site.post(f"{ADD}?max_attempts=3&max_attempts=4", data=b"x")
    assert answer.status in {400, 422}
    assert "max_attempts" in answer.json["error"]["message"]


async def test_options_have_room_for_both_or_are_refused(site: Site) -> None:
    fits = {"a": "x" * (MAX_OPTIONS_CHARS - len('{"limits":{"max_attempts":3},"a":""}'))}
    answer = await site.post(ADD, json={"payload": "x", "options": fits, "max_attempts": 3})
    assert answer.status == 200, answer.body
    assert (await shown(site, answer.json["ids"][0]))["max_attempts"] == 3
    more = {"a": fits["a"] + "x"}
    answer = await site.post(ADD, json={"payload": "x", "options": more, "max_attempts": 3})
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, "options")


async def test_a_schedule_and_a_child_have_them_too(site: Site) -> None:
    (parent,) = await site.add("x")
    await site.intake.flush()
    await site.store.claim_jobs("acme-thumb", 1, owner="a7", lease_ms=60_000, now_ms=site.clock.now_ms())
    (child,) = await site.add("y", path=f"/acme/job/part/add?parent={parent}&max_attempts=3")
    (named,) = await site.add("z", path="/acme/job/feed/add?unique=u&repeat=HOURLY&max_attempts=4")
    assert (await shown(site, child))["max_attempts"] == 3
    assert (await shown(site, named))["max_attempts"] == 4
    assert await site.add("again", path="/acme/job/feed/add?unique=u&max_attempts=5") == [named]
    assert (await shown(site, named))["max_attempts"] == 4, "as all that a unique job is not told to change"


async def test_the_client_sends_them(site: Site) -> None:
    async with Client(site.url, site.keys["acme"], "acme") as client:
        lines = await client.add_jobs("thumb", ["x"], max_attempts=3)
        rows = await client.add_jobs("thumb", ["a\nb"], max_attempts=3, max_wait_s=5)
        several = await client.create_jobs([{"type": "thumb", "payload": "x", "max_attempts": 3}])
        await site.intake.flush()
        for added in (lines, rows, several):
            assert isinstance(added.ids, list)
            assert (await client.get_job(added.ids[0])).max_attempts == 3


async def fail_once(site: Site) -> None:
    """The first attempt of the one job that waits."""
    await site.intake.flush()
    now_ms = site.clock.now_ms()
    (job,) = await site.store.claim_jobs("acme-thumb", 1, owner="a7", lease_ms=60_000, now_ms=now_ms)
    release = Retry(job.id, job.token, now_ms + 60_000, Outcome(Code.ERROR, 500, T0, message="no"))
    await site.store.release_jobs("a7", [release], now_ms=now_ms)


async def test_why_and_the_page_say_which_attempt_of_how_many(site: Site) -> None:
    (job_id,) = await site.add("x", path=f"{ADD}?max_attempts=3&max_wait_s=60")
    await fail_once(site)
    why = (await site.get(f"/acme/job/{job_id}/why")).json
    assert why["text"].startswith("attempt 1 of 3 ended with error: no; the next is at ")
    assert why["detail"]["max_attempts"] == 3
    site.clock.advance(61)
    await site.store.claim_jobs("acme-thumb", 1, owner="a7", lease_ms=60_000, now_ms=site.clock.now_ms())
    async with visitor(site, "acme") as acme:
        page = (await acme.get(f"/ui/t/acme/job/{job_id}")).text
    assert "Attempt 2 of 3." in page
    assert re.search(r"<dt>Attempts</dt><dd>2 of 3</dd>", page)
    assert "<dt>Own limits</dt><dd>max_attempts 3, max_wait_s 60</dd>" in page


async def test_the_page_of_a_plain_job_says_no_limit(site: Site) -> None:
    (job_id,) = await site.add("x")
    await fail_once(site)
    async with visitor(site, "acme") as acme:
        page = (await acme.get(f"/ui/t/acme/job/{job_id}")).text
    assert "<dt>Attempts</dt><dd>1</dd>" in page
    assert "Own limits" not in page
    assert "max_attempts" not in (await site.get(f"/acme/job/{job_id}/why")).json["detail"]


async def test_the_command_adds_and_shows_them(site: Site, terminal: Terminal, tmp_path: Path) -> None:
    words = [word for name, value in EACH.items() for word in ("--" + name.replace("_", "-"), str(value))]
    job_id = (await terminal.run("job", "add", "thumb", "x", *words)).splitlines()[0]
    assert (await stored(site, job_id)).options == IN_OPTIONS
    told = await terminal.run("job", "get", job_id)
    assert "attempts     0 of 3\n" in told
    assert (
        "own limits   max_attempts 3, retry_base_ms 250, retry_max_ms 9000, retry_window_s 90, max_wait_s 5\n" in told
    )
    plain = (await terminal.run("job", "add", "thumb", "y")).splitlines()[0]
    await site.intake.flush()
    told = await terminal.run("job", "get", plain)
    assert "attempts     0\n" in told
    assert "own limits" not in told
    file = tmp_path / "jobs.json"
    await asyncio.to_thread(file.write_text, json.dumps([{"type": "thumb", "payload": "x", **EACH}]))
    created = (await terminal.run("job", "create", str(file))).splitlines()[0]
    assert (await stored(site, created)).options == IN_OPTIONS


async def test_the_command_names_what_is_wrong(site: Site, terminal: Terminal) -> None:
    assert "max_attempts" in await terminal.run("job", "add", "thumb", "x", "--max-attempts", "0", status=2)
    both = ("--options", '{"limits": {"max_attempts": 3}}', "--max-wait-s", "5")
    assert "use either max_wait_s or options.limits" in await terminal.run("job", "add", "thumb", "x", *both, status=2)
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == 0


async def test_they_are_described(site: Site) -> None:
    schemas = (await site.get("/openapi.json")).json["components"]["schemas"]
    for name in ("NewJob", "TypedJob", "Job"):
        number = next(one for one in _types_of(schemas[name]["properties"]["max_attempts"]) if one["type"] == "integer")
        assert (number["minimum"], number["maximum"]) == (1, 1000)
    query = (await site.get("/openapi.json")).json["paths"]["/{tenant}/job/{type}/add"]["post"]["parameters"]
    assert EACH.keys() <= {parameter["name"] for parameter in query}


def _types_of(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return list(schema.get("anyOf", [schema]))
