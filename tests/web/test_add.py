"""POST of jobs: lines, JSON, NDJSON, their options, and what is refused."""

import gzip
import json
from typing import Any

import pytest

from store.base import Archive, Code, JobRecord, Outcome
from tests.support.half_bound import crash_after_the_key
from tests.support.web import T0, Site

ADD = "/acme/job/thumb/add"
JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}


async def stored(site: Site, job_id: str) -> JobRecord:
    await site.intake.flush()
    record = await site.store.get_job("acme", job_id, now_ms=site.clock.now_ms())
    assert record is not None
    return record


@pytest.mark.parametrize(
    ("body", "payloads"),
    [
        (b"one", [b"one"]),
        (b"one\ntwo\n", [b"one", b"two"]),
        (b"one\n\n# a comment\n\ntwo", [b"one", b"two"]),
        (b" # not a comment\n", [b" # not a comment"]),
        (b"\xff\x00\x01|x\n", [b"\xff\x00\x01|x"]),
        (b'{"a": 1}\r\n', [b'{"a": 1}\r']),
    ],
)
async def test_every_line_is_a_job(site: Site, body: bytes, payloads: list[bytes]) -> None:
    answer = await site.post(ADD, data=body)
    assert answer.status == 200
    assert answer.json["count"] == len(payloads)
    assert [(await stored(site, job_id)).job.data for job_id in answer.json["ids"]] == payloads


async def test_gzip_is_unpacked_and_ids_can_be_left_out(site: Site) -> None:
    body = gzip.compress(b"".join(b"line %d\n" % number for number in range(5000)))
    answer = await site.post(ADD + "?ids=no", data=body, headers={"Content-Encoding": "gzip"})
    assert answer.json == {"count": 5000}
    await site.intake.flush()
    (row,) = await site.store.get_counters("acme", now_ms=site.clock.now_ms())
    assert row.waiting == 5000


async def test_query_options_reach_the_store_through_the_journal(site: Site) -> None:
    query = "?delay_s=90&priority=1000&domain=api&key=ada%20%26%20co&indexed=true"
    (lost,) = await site.add("x", path=ADD + query + "&retry_after_s=2.5")
    (again,) = await site.add("x", path=ADD + query + "&repeat=FINISHED,%20%2B1%20HOUR")
    for job_id, seq, retry_after_ms, repeat in [(lost, 1, 2500, ""), (again, 2, None, "FINISHED, +1 HOUR")]:
        job = (await stored(site, job_id)).job
        assert (job.due_ms, job.priority, job.domain, job.key) == (T0 + 90_000, 1000, "api", "ada & co")
        assert (job.retry_after_ms, job.seq, job.repeat) == (retry_after_ms, seq, repeat)


@pytest.mark.parametrize(
    "dt", ["1800000050000", "2027-01-15T08:00:50Z", "2027-01-15t08:00:50z", "2027-01-15T09:00:50%2B01:00"]
)
async def test_dt_is_milliseconds_or_a_time_with_its_offset(site: Site, dt: str) -> None:
    (job_id,) = await site.add("x", path=f"{ADD}?dt={dt}")
    assert (await stored(site, job_id)).job.due_ms == T0 + 50_000


@pytest.mark.parametrize("dt", [T0 + 50_000, float(T0 + 50_000), str(T0 + 50_000), "2027-01-15t08:00:50z"])
async def test_dt_in_json_is_a_number_or_text(site: Site, dt: float | str) -> None:
    answer = await site.post(ADD, json={"payload": "x", "dt": dt})
    assert (await stored(site, answer.json["ids"][0])).job.due_ms == T0 + 50_000


@pytest.mark.parametrize(
    ("dt", "words"),
    [
        (True, "dt must be a number or text, not true or false"),
        ([1], "dt must be a number or text, not a list"),
        (1.5, "dt 1.5 is not a whole number of milliseconds"),
        (-1, "dt -1 is not between the years 1970 and 9999"),
        (10**18, "dt 1000000000000000000 is not between"),
        (10**4000, "dt 1000"),
        (1e300, "dt 1e+300 is not between"),
    ],
)
async def test_a_dt_that_is_no_time_is_named(site: Site, dt: Any, words: str) -> None:
    answer = await site.post(ADD, json={"payload": "x", "dt": dt})
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, "dt")
    assert answer.json["error"]["message"].startswith(words)
    assert len(answer.json["error"]["message"]) < 200


@pytest.mark.parametrize("field", ["key", "unique", "parent", "domain"])
@pytest.mark.parametrize("form", ["query", "object", "array", "ndjson", "several"])
async def test_an_empty_name_is_refused_as_a_variable_that_is_not_set(site: Site, field: str, form: str) -> None:
    job = {"payload": "x", field: ""}
    match form:
        case "query":
            answer = await site.post(f"{ADD}?{field}=", data=b"x")
        case "ndjson":
            answer = await site.post(ADD, data=json.dumps(job), headers=NDJSON)
        case "several":
            answer = await site.post("/acme/jobs", json={"jobs": [{"type": "thumb", **job}]})
        case _:
            answer = await site.post(ADD, json=job if form == "object" else [job])
    assert (answer.status, answer.code) == (422, "invalid_input")
    assert f"{field} must have at least 1 character" in answer.json["error"]["message"]
    assert answer.json["error"]["detail"]["field"].endswith(field)
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == 0


JOBS: list[dict[str, Any]] = [
    {"payload": "text", "priority": 1000},
    {"payload": {"a": [1, None]}},
    {"payload_base64": "/wAK", "delay_s": 1, "options": {"max_attempts": 3}},
    {"payload": "again", "priority": 1000},
]


@pytest.mark.parametrize("form", ["array", "ndjson"])
async def test_json_jobs_have_options_of_their_own_and_ids_in_order(site: Site, form: str) -> None:
    if form == "array":
        answer = await site.post(ADD, json=JOBS)
    else:
        answer = await site.post(ADD, data="\n\n".join(map(json.dumps, JOBS)), headers=NDJSON)
    assert answer.status == 200
    jobs = [(await stored(site, job_id)).job for job_id in answer.json["ids"]]
    assert [job.data for job in jobs] == [b"text", b'{"a":[1,null]}', b"\xff\x00\n", b"again"]
    assert [job.priority for job in jobs] == [1000, 500, 500, 1000]
    assert (jobs[2].due_ms, jobs[2].options) == (T0 + 1000, '{"max_attempts":3}')


async def test_one_json_object_is_one_job(site: Site) -> None:
    assert (await site.post(ADD, json={"payload": "x"})).json["count"] == 1


@pytest.mark.parametrize(
    ("query", "body", "status", "code"),
    [
        ("", b"", 422, "invalid_input"),
        ("", b"\n# only a comment\n", 422, "invalid_input"),
        ("?delay=3", b"x", 422, "invalid_input"),
        ("?delay_s=-1", b"x", 422, "invalid_input"),
        ("?delay_s=nan", b"x", 422, "invalid_input"),
        ("?delay_s=3&dt=5", b"x", 422, "invalid_input"),
        ("?delay_s=3&delay_s=4", b"x", 422, "invalid_input"),
        ("?dt=tomorrow", b"x", 422, "invalid_input"),
        ("?dt=2027-01-15T08:00:00", b"x", 422, "invalid_input"),
        ("?dt=99999999999999999", b"x", 422, "invalid_input"),
        ("?priority=7", b"x", 422, "invalid_input"),
        ("?domain=a%00b", b"x", 422, "invalid_value"),
        ("?key=a%00b", b"x", 422, "invalid_value"),
        ("?ack=never", b"x", 422, "invalid_input"),
        ("?parent=..%2f", b"x", 422, "invalid_value"),
        ("", b"x" * (1 << 20) + b"y", 413, "limit_exceeded"),
        ("", b"x\n" * 100_001, 413, "limit_exceeded"),
    ],
)
async def test_what_is_wrong_is_refused_and_nothing_is_added(
    site: Site, query: str, body: bytes, status: int, code: str
) -> None:
    answer = await site.post(ADD + query, data=body)
    assert (answer.status, answer.code) == (status, code), answer.body[:300]
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\xff", 400),
        (b'"x"', 422),
        (b"[]", 422),
        (b"{}", 422),
        (b'{"payload": "x", "payload_base64": ""}', 422),
        (b'{"payload_base64": "%%%"}', 422),
        (b'{"payload": "x", "prioritty": 1}', 422),
        (b'[{"payload": "good"}, {"payload": "x", "domain": "\\u0000"}]', 422),
        (b'{"payload": ' + b"[" * 100_000 + b"}", 400),
    ],
)
async def test_bad_json_is_refused_as_a_whole(site: Site, body: bytes, status: int) -> None:
    answer = await site.post(ADD, data=body, headers={"Content-Type": "application/json"})
    assert answer.status == status, answer.body[:300]
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == 0


async def test_half_of_a_surrogate_pair_is_named(site: Site) -> None:
    answer = await site.post(ADD, data=rb'{"payload":"\ud800"}', headers={"Content-Type": "application/json"})
    assert (answer.status, answer.code) == (400, "bad_request")
    assert answer.json["error"]["message"].startswith(r"the body is not JSON: \ud800 is half of a surrogate pair")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (ADD, '{"payload": "x", "options": {"a": %s}}', "options"),
        ("/acme/jobs", '{"jobs": [{"type": "thumb", "payload": "x", "options": {"a": %s}}]}', "jobs[0].options"),
    ],
)
async def test_options_that_are_nested_too_deeply_are_named(site: Site, path: str, body: str, field: str) -> None:
    for levels in (100, 900):
        answer = await site.call("POST", path, data=body % ("[" * levels + "]" * levels), headers=JSON)
        assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, field)
    answer = await site.call("POST", path, data=body % ("[" * 99 + "]" * 99), headers=JSON)
    assert answer.status == 200


async def test_an_option_in_the_query_of_a_json_body_is_not_lost_silently(site: Site) -> None:
    answer = await site.post(ADD + "?priority=1000", json={"payload": "x"})
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (422, "priority")


async def test_the_number_of_the_bad_line_is_told(site: Site) -> None:
    answer = await site.post(ADD, data=b'{"payload": 1}\n\n{"payload": 2, "x": 1}', headers=NDJSON)
    assert answer.status == 422
    assert "line 3" in answer.json["error"]["message"]


async def test_too_many_sets_of_options_are_refused(site: Site) -> None:
    jobs = [{"payload": "x", "delay_s": number} for number in range(1001)]
    assert (await site.post(ADD, json=jobs)).code == "invalid_input"


@pytest.mark.parametrize("type_name", ["a|b", "-a", "a" * 128, "a%20b", "a%0Ab", "é"])
async def test_a_type_is_a_plain_name(site: Site, type_name: str) -> None:
    answer = await site.post(f"/acme/job/{type_name}/add", data=b"x")
    assert (answer.status, answer.code) == (422, "invalid_input")


async def test_ack_store_answers_when_the_store_has_it(site: Site) -> None:
    (job_id,) = await site.add("x", path=ADD + "?ack=store")
    assert await site.store.get_job("acme", job_id, now_ms=T0) is not None


async def test_ack_store_without_a_store_says_that_the_jobs_are_taken(site: Site) -> None:
    site.intake.is_down = True
    answer = await site.post(ADD + "?ack=store", data=b"x")
    assert (answer.status, answer.code) == (503, "not_ready_yet")
    assert answer.json["error"]["detail"]["accepted"] is True
    site.intake.is_down = False
    (job_id,) = answer.json["error"]["detail"]["ids"]
    assert (await stored(site, job_id)).job.data == b"x"


async def test_a_unique_job_is_one_and_takes_the_new_payload(site: Site) -> None:
    await site.add("plain")
    (first,) = await site.add("a", path=ADD + "?unique=nightly")
    (second,) = await site.add("b", path=ADD + "?unique=nightly")
    assert first == second
    assert (await stored(site, first)).job.data == b"b"
    assert site.intake.flushes >= 2, "the lines before it reach the store first"
    assert site.control.wakes > 0


async def test_a_child_needs_a_parent_that_runs(site: Site) -> None:
    (parent,) = await site.add("p")
    answer = await site.post(f"{ADD}?parent={parent}", data=b"c")
    assert (answer.status, answer.code) == (409, "conflict")
    await site.store.claim_jobs("acme-thumb", 1, owner="a7", lease_ms=1000, now_ms=T0)
    (child,) = await site.add("c", path=f"{ADD}?parent={parent}")
    assert (await stored(site, child)).state == "paused"
    answer = await site.get(f"/acme/job/{parent}/children")
    assert [job["id"] for job in answer.json["jobs"]] == [child]


async def test_children_are_listed_with_the_beginning_of_their_results(site: Site) -> None:
    (parent,) = await site.add("p", path=ADD + "?ack=store")
    (running,) = await site.store.claim_jobs("acme-thumb", 1, owner="a7", lease_ms=1000, now_ms=T0)
    children = await site.add("a", "b", "c", path=f"/acme/job/piece/add?parent={parent}")
    await site.store.release_jobs("a7", [Archive(parent, running.token, Outcome(Code.OK, 200, T0))], now_ms=T0)
    jobs = await site.store.claim_jobs("acme-piece", 2, owner="a7", lease_ms=1000, now_ms=T0)
    results = [b'{"n":1}', "ä".encode() * 4000]
    ends = [
        Archive(job.id, job.token, Outcome(Code.OK, 200, T0, result=result))
        for job, result in zip(jobs, results, strict=True)
    ]
    await site.store.release_jobs("a7", ends, now_ms=T0)
    answer = await site.get(f"/acme/job/{parent}/children")
    shown = [(job["id"], job["code"], job["result"], job["result_bytes"]) for job in answer.json["jobs"]]
    assert shown == [
        (children[0], "ok", '{"n":1}', 7),
        (children[1], "ok", "ä" * 2048, 8000),
        (children[2], None, None, 0),
    ]


async def test_the_same_idempotency_key_answers_the_same_ids(site: Site) -> None:
    path = ADD + "?idempotency_key=order-17"
    first = await site.add("a", "b", path=path)
    site.clock.advance(3600)
    assert await site.add("a", "b", path=path) == first
    assert (await site.store.get_usage("acme")).jobs == 2
    assert (await stored(site, first[1])).job.data == b"b"
    other = await site.post("/other/job/thumb/add?idempotency_key=order-17", data=b"a\nb", key="other")
    assert other.status == 200, "keys are of a tenant"
    assert other.json["ids"] != first


async def test_an_idempotency_key_belongs_to_one_request(site: Site) -> None:
    path = ADD + "?idempotency_key=k"
    await site.add("a", path=path)
    answer = await site.post(path, data=b"b")
    assert (answer.status, answer.code) == (422, "idempotency_mismatch")
    site.clock.advance(86_401)
    assert (await site.post(path, data=b"b")).status == 200, "it is remembered for a day"


async def test_a_crash_between_key_and_jobs_is_repaired_by_the_repeated_request(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ADD + "?idempotency_key=k"
    with monkeypatch.context() as patch:
        patch.setattr(site.store, "add_jobs_once", crash_after_the_key(site.store))
        assert (await site.post(path, data=b"a\nb")).status == 500
    ids = await site.add("a", "b", path=path)
    assert [(await stored(site, job_id)).job.data for job_id in ids] == [b"a", b"b"]


async def test_a_unique_job_keeps_what_is_not_said(site: Site) -> None:
    (first,) = await site.add("a", path=ADD + "?unique=nightly&priority=1000&repeat=FINISHED,%20%2B1%20HOUR")
    await site.add("b", path=ADD + "?unique=nightly")
    job = (await site.get(f"/acme/job/{first}")).json
    assert (job["payload"], job["priority"], job["repeat"]) == ("b", 1000, "FINISHED, +1 HOUR")
    await site.add("c", path=ADD + "?unique=nightly&priority=500&repeat=")
    job = (await site.get(f"/acme/job/{first}")).json
    assert (job["payload"], job["priority"], job["repeat"]) == ("c", 500, "")


async def test_an_array_with_one_bad_job_adds_none(site: Site) -> None:
    body = [{"payload": "a", "unique": "one"}, {"payload": "b", "parent": "20261114T235959123Z-a7-00001f"}]
    answer = await site.post(ADD, json=body)
    assert answer.status == 404
    assert [row["waiting"] for row in (await site.get("/acme/scoreboard")).json["types"]] in ([], [0])


async def test_a_child_that_repeats_is_refused(site: Site) -> None:
    answer = await site.post(ADD, json={"payload": "a", "parent": "x", "repeat": "FINISHED, +1 HOUR"})
    assert answer.status == 422
    assert "cannot repeat" in answer.json["error"]["message"]


async def test_unique_and_idempotency_key_exclude_each_other(site: Site) -> None:
    answer = await site.post(ADD + "?unique=u&idempotency_key=k", data=b"a")
    assert answer.status == 422


async def test_jobber_queue(site: Site) -> None:
    answer = await site.post("/jobber/queue", json={"type": "thumb", "payload": {"a": 1}})
    assert answer.status == 201
    assert (await stored(site, answer.json["job-id"])).job.data == b'{"a":1}'


async def test_add_by_query_is_for_the_tenant_itself_and_for_the_operator(site: Site) -> None:
    for key, query in [
        ("acme", "jobtype=thumb"),
        ("acme", "jobtype=acme-thumb&client=acme"),
        ("operator", "jobtype=thumb&client=acme"),
    ]:
        answer = await site.post(f"/add?{query}", data=b"x", key=key)
        assert answer.status == 200, answer.body
        assert (await stored(site, answer.json["ids"][0])).job.jobtype == "acme-thumb"
    assert (await site.post("/add?jobtype=thumb&client=other", data=b"x")).status == 403
    assert (await site.post("/add?jobtype=thumb", data=b"x", key="operator")).status == 422
    assert (await site.post("/add?jobtype=thumb&client=nobody", data=b"x", key="operator")).status == 404
    assert (await site.post("/add?jobtype=thumb", data=b"")).status == 422


@pytest.mark.parametrize("repeat", ["now and then", "FINISHED, START OF DAY", "FINISHED, START OF DAY, +23 HOURS"])
async def test_a_repeat_that_cannot_work_is_refused(site: Site, repeat: str) -> None:
    answer = await site.call("POST", ADD, json={"payload": "x", "repeat": repeat})
    assert answer.status == 422
    assert answer.json["error"]["detail"]["field"] == "repeat"


async def test_who_posts_may_wait_for_the_end_in_the_same_request(site: Site) -> None:
    answer = await site.post(ADD + "?wait_s=0.01", data=b"one\ntwo")
    assert answer.status == 200
    assert [job["id"] for job in answer.json["jobs"]] == answer.json["ids"]
    assert {job["state"] for job in answer.json["jobs"]} <= {"queued", "waiting"}, "the time was up"


async def test_more_than_a_hundred_jobs_are_not_waited_for(site: Site) -> None:
    answer = await site.post(ADD + "?wait_s=60", data=b"x\n" * 101)
    assert (answer.json["count"], "jobs" in answer.json) == (101, False)
