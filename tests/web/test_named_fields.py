"""A 422 names the field that is wrong, and of several jobs the one that is meant, also where the store refuses it."""

import json
from pathlib import Path
from typing import Any

import pytest

from functory.operations.service import OperationSettings
from tests.support.web import Site, open_site

ADD = "/acme/job/thumb/add"
NDJSON = {"Content-Type": "application/x-ndjson"}
WRONG: list[tuple[str, Any]] = [
    ("domain", "a\0"),
    ("key", "a\0"),
    ("unique", "a\0"),
    ("parent", "../a"),
    ("options", {"a": "x" * 16_384}),
]


@pytest.mark.parametrize(("field", "value"), WRONG)
@pytest.mark.parametrize(
    ("form", "words", "place"),
    [("object", "", ""), ("array", "job 3: ", "[2]."), ("ndjson", "line 5: ", ""), ("several", "job 3: ", "jobs[2].")],
)
async def test_the_field_of_a_job_and_its_number_are_told(
    site: Site, field: str, value: Any, form: str, words: str, place: str
) -> None:
    jobs: list[dict[str, Any]] = [{"payload": "a"}, {"payload": "b", "priority": 1000}, {"payload": "c", field: value}]
    match form:
        case "object":
            answer = await site.post(ADD, json=jobs[-1])
        case "array":
            answer = await site.post(ADD, json=jobs)
        case "ndjson":
            answer = await site.post(ADD, data="\n\n".join(map(json.dumps, jobs)), headers=NDJSON)
        case _:
            answer = await site.post("/acme/jobs", json={"jobs": [{"type": "thumb", **job} for job in jobs]})
    assert (answer.status, answer.code) == (422, "invalid_value"), answer.body[:300]
    assert answer.json["error"]["message"].startswith(words)
    assert answer.json["error"]["detail"] == {"field": place + field}
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == 0


async def test_a_body_with_too_many_jobs_is_refused_before_each_of_them_is_looked_at(tmp_path: Path) -> None:
    jobs = [{"payload": "a", "unique": unique} for unique in ("a", "b\0", "c")]
    async with open_site(tmp_path, operations=OperationSettings(max_created=2)) as site:
        answer = await site.post(ADD, json=jobs)
        assert (answer.status, answer.json["error"]["detail"]) == (413, {"limit": "max_created"})
        answer = await site.post(ADD, json=jobs[:2])
        assert (answer.status, answer.json["error"]["detail"]) == (422, {"field": "[1].unique"})


@pytest.mark.parametrize("query", ["domain=a%00", "key=a%00", "unique=a%00", "parent=..%2fa"])
async def test_an_option_of_lines_is_named(site: Site, query: str) -> None:
    answer = await site.post(f"{ADD}?{query}", data=b"x")
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, query.partition("=")[0])


async def test_a_child_that_repeats_is_told_what_to_leave_out(site: Site) -> None:
    job = {"payload": "a", "parent": "x", "repeat": "FINISHED, +1 HOUR"}
    answer = await site.post(ADD, json=[{"payload": "b"}, job])
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, "[1].repeat")


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/acme/results?cursor=nonsense", "acme"),
        ("/acme/results?cursor=archived.99999999999999999999.1", "acme"),
        ("/acme/results?cursor=archived.1.99999999999999999999", "acme"),
        ("/acme/job/{id}/children?cursor=a%2fb", "acme"),
        ("/admin/audit?cursor=nonsense", "operator"),
    ],
)
async def test_a_cursor_is_named(site: Site, path: str, key: str) -> None:
    (job_id,) = await site.add("x", path=ADD + "?ack=store")
    await site.run()
    answer = await site.get(path.replace("{id}", job_id), key=key)
    assert (answer.status, answer.json["error"]["detail"]) == (422, {"field": "cursor"}), answer.body[:300]


async def test_names_of_older_paths_are_told_as_they_were_sent(site: Site) -> None:
    answer = await site.post("/add?jobtype=!", data=b"x")
    assert (answer.status, answer.json["error"]["detail"]) == (422, {"in": "query", "field": "jobtype"})
    answer = await site.post("/add?jobtype=thumb", data=b"x", key="operator")
    assert (answer.status, answer.json["error"]["detail"]) == (422, {"in": "query", "field": "client"})
    answer = await site.post("/acme/handler/add/thumb/add?method=foo", data=b"x")
    assert (answer.status, answer.json["error"]["detail"]) == (422, {"field": "method"})
    answer = await site.call("PUT", "/acme/handler/thumb?lang=foo", data=b"x")
    assert (answer.status, answer.json["error"]["detail"]) == (422, {"field": "lang"})
