"""The commands, one by one: what each does, in which state, and what it says otherwise."""

import json
from typing import Any

import pytest

from functory.operations.handlers import delete_handler, get_handler, list_handlers, put_handler
from functory.operations.job_settings import to_options
from functory.operations.jobs import cancel_job
from functory.operations.submit import Submission, submit_jobs
from functory.wire.jobs import JobSettings
from store.base import JobRecord
from tests.support.bedrock import Bedrock, Session, on_every_store
from tests.support.clocks import FakeClock
from tests.support.workers import ACME


async def state_of(session: Session, number: int) -> str:
    return str((await session.ask("QueryJob", jobID=number)).json["state"])


async def test_numbers_ascend_and_jobs_of_several_names_come_together(session: Session) -> None:
    assert (await session.ask("CreateJob", name="a")).json == {"jobID": 1}
    jobs = [{"name": "b", "data": {"x": [1]}}, {"name": "c", "DATA": "not read", "data": '{"y": 2}'}]
    assert (await session.ask("CreateJobs", jobs=json.dumps(jobs))).json == {"jobIDs": [2, 3]}
    assert (await session.ask("GetJob", name="[bc]")).json["name"] in {"b", "c"}
    assert (await session.ask("QueryJob", jobID=3)).json["data"] == {"y": 2}
    assert (await session.ask("QueryJob", jobID=1)).json["data"] == {}


@on_every_store
async def test_all_jobs_or_none(session: Session) -> None:
    jobs = [{"name": "a"}, {"name": "b", "jobPriority": 7}]
    reply = await session.ask("CreateJobs", jobs=json.dumps(jobs))
    assert (reply.status, reply.reason) == (402, "job 2: Invalid priority value: it must be 0, 500 or 1000")
    assert (await session.ask("Query", query="select count(*) from jobs")).json == [[0]]


async def test_a_parent_is_looked_at_once_for_many_children(
    bedrock: Bedrock, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await session.ask("CreateJob", name="parent")
    await session.ask("GetJob", name="parent")
    store, looks = bedrock.shop.service.store, 0
    get_job = store.get_job

    async def look(*given: Any, **options: Any) -> JobRecord | None:
        nonlocal looks
        looks += 1
        return await get_job(*given, **options)

    monkeypatch.setattr(store, "get_job", look)
    jobs = [{"name": "child", "parentJobID": 1}] * 50
    assert len((await session.ask("CreateJobs", jobs=json.dumps(jobs))).json["jobIDs"]) == 50
    assert looks == 1
    reply = await session.ask("CreateJobs", jobs=json.dumps([*jobs, {"name": "child", "parentJobID": 99}]))
    assert (reply.status, reply.reason) == (404, "job 51: parentJobID does not exist")


async def test_higher_priority_first_then_by_time(session: Session) -> None:
    for priority in (0, 1000, 500, 1000):
        await session.ask("CreateJob", name="p", jobPriority=priority)
    reply = await session.ask("GetJobs", name="p", numResults=9)
    assert [job["jobID"] for job in reply.json["jobs"]] == [2, 4, 3, 1]


@on_every_store
async def test_unique_gives_the_job_that_is_there_and_changes_its_data(session: Session) -> None:
    assert (await session.ask("CreateJob", name="u", unique="true", data='{"a":1}')).json == {"jobID": 1}
    assert (await session.ask("CreateJob", name="u", unique="true", data='{"a":2}')).json == {"jobID": 1}
    assert (await session.ask("QueryJob", jobID=1)).json["data"] == {"a": 2}
    assert (await session.ask("CreateJob", name="u")).json == {"jobID": 2}


async def test_first_run_and_retry_after(session: Session, clock: FakeClock) -> None:
    await session.ask("CreateJob", name="later", firstRun="2027-01-16")
    await session.ask("CreateJob", name="again", retryAfter="+10 MINUTES")
    assert (await session.ask("GetJob", name="later")).status == 404
    assert (await session.ask("GetJob", name="again")).json["jobID"] == 2
    assert await state_of(session, 2) == "RUNQUEUED"
    reply = await session.ask("Query", query="select nextRun, retryAfter from jobs where jobID = 2")
    assert reply.json == [["2027-01-15 08:10:00", "+600 SECONDS"]]
    clock.advance(86_400)
    assert (await session.ask("GetJob", name="later")).json["jobID"] == 1


@on_every_store
async def test_children_run_when_their_parent_has_finished_and_it_sees_them_then(session: Session) -> None:
    await session.ask("CreateJob", name="album", data='{"n":0}')
    assert (await session.ask("CreateJob", name="piece", parentJobID=1)).status == 405
    await session.ask("GetJob", name="album")
    for data in ('{"c":1}', '{"c":2}', '{"c":3}'):
        await session.ask("CreateJob", name="piece", parentJobID=1, data=data)
    assert await state_of(session, 2) == "PAUSED"
    assert (await session.ask("GetJob", name="piece")).status == 404
    await session.ask("FinishJob", jobID=1, data='{"n":1}')
    assert await state_of(session, 1) == "PAUSED"
    first = (await session.ask("GetJob", name="piece")).json
    assert (first["jobID"], first["parentJobID"], first["parentData"]) == (2, 1, {"n": 1})
    await session.ask("FinishJob", jobID=2, data='{"c":10}')
    await session.ask("GetJob", name="piece")
    await session.ask("FailJob", jobID=3)
    await session.ask("CancelJob", jobID=4)
    again = (await session.ask("GetJob", name="album")).json
    assert again["data"] == {"n": 1}, "the data that it finished with"
    assert again["finishedChildJobs"] == [{"data": {"c": 10}, "jobID": 2}]
    assert again["failedChildJobs"] == [{"data": {"c": 2}, "jobID": 3}]
    assert again["cancelledChildJobs"] == [{"data": {"c": 3}, "jobID": 4}]
    await session.ask("FinishJob", jobID=1)
    assert await state_of(session, 1) == "FINISHED"


async def test_only_a_running_job_is_finished_or_failed(session: Session) -> None:
    await session.ask("CreateJob", name="x")
    for command in ("FinishJob", "FailJob"):
        assert (await session.ask(command, jobID=1)).status == 405
        assert (await session.ask(command, jobID=9)).reason == "No job with this jobID"
    await session.ask("GetJob", name="x")
    assert (await session.ask("FailJob", jobID=1, data='{"why":1}')).status == 200
    assert (await session.ask("QueryJob", jobID=1)).json == {
        "data": {"why": 1},
        "jobID": 1,
        "name": "x",
        "state": "FAILED",
    }
    assert (await session.ask("FinishJob", jobID=1)).status == 405


@on_every_store
async def test_a_retry_comes_when_it_was_asked_for_with_its_data(session: Session, clock: FakeClock) -> None:
    await session.ask("CreateJob", name="x")
    await session.ask("GetJob", name="x")
    assert (await session.ask("RetryJob", jobID=1, delay=60, data='{"n":1}')).status == 200
    assert (await session.ask("GetJob", name="x")).status == 404
    clock.advance(61)
    assert (await session.ask("GetJob", name="x")).json["data"] == {"n": 1}
    await session.ask("RetryJob", jobID=1, nextRun="2027-06-01 12:00:00", delay=1)
    rows = (await session.ask("Query", query="select state, nextRun from jobs")).json
    assert rows == [["QUEUED", "2027-06-01 12:00:00"]]
    assert (await session.ask("RetryJob", jobID=1)).status == 200, "a deferred job runs now"
    await session.ask("GetJob", name="x")
    await session.ask("FinishJob", jobID=1)
    assert (await session.ask("RetryJob", jobID=1)).status == 200, "one that has ended runs again"
    assert (await session.ask("RetryJob", jobID=1)).status == 405, "one that waits runs anyway"


async def test_a_retry_comes_also_after_the_retry_window(session: Session, clock: FakeClock) -> None:
    await session.ask("CreateJob", name="x")
    await session.ask("GetJob", name="x")
    assert (await session.ask("RetryJob", jobID=1, nextRun="2030-01-01 00:00:00")).status == 200
    rows = (await session.ask("Query", query="select state, nextRun from jobs")).json
    assert rows == [["QUEUED", "2030-01-01 00:00:00"]]
    clock.advance(3 * 366 * 86_400)
    assert (await session.ask("GetJob", name="x")).json["jobID"] == 1
    assert (await session.ask("RetryJob", jobID=1)).status == 200
    assert await state_of(session, 1) == "QUEUED"


async def test_a_retry_that_is_one_too_many_says_so(bedrock: Bedrock, session: Session) -> None:
    await put_handler(bedrock.shop.service, ACME, "x", {"lang": "worker", "body": "", "options": {"max_attempts": 1}})
    await session.ask("CreateJob", name="x")
    await session.ask("GetJob", name="x")
    reply = await session.ask("RetryJob", jobID=1)
    assert (reply.status, await state_of(session, 1)) == (405, "FAILED")
    assert "max_attempts" in reply.reason


async def test_a_job_with_its_own_window_is_retried_past_it_and_no_more_often_than_it_may(
    bedrock: Bedrock, session: Session, clock: FakeClock
) -> None:
    shop = bedrock.shop
    await put_handler(shop.service, ACME, "x", {"lang": "worker", "body": ""})
    options = to_options(JobSettings(retry_window_s=1, max_attempts=2), clock.now_ms())
    await submit_jobs(shop.service, ACME, "x", [Submission(b"{}", options)])
    await shop.daemon.intake.flush()
    number = (await session.ask("GetJob", name="x")).json["jobID"]
    clock.advance(5)
    assert (await session.ask("RetryJob", jobID=number)).status == 200, "past its window"
    assert (await session.ask("GetJob", name="x")).json["jobID"] == number
    reply = await session.ask("RetryJob", jobID=number)
    assert (reply.status, await state_of(session, number)) == (405, "FAILED")
    assert "max_attempts" in reply.reason


async def test_a_type_whose_handler_was_deleted_is_registered_again(bedrock: Bedrock, session: Session) -> None:
    service = bedrock.shop.service
    await session.ask("CreateJob", name="x")
    await session.ask("CreateJob", name="x")
    await delete_handler(service, ACME, "x")
    await session.ask("CreateJob", name="x")
    assert (await get_handler(service, "acme", "x")).lang == "worker"


async def test_what_is_refused_registers_no_type(bedrock: Bedrock, session: Session) -> None:
    await session.ask("CreateJob", name="x")
    await session.ask("CreateJob", name="u", unique="true")
    await session.ask("GetJob", name="u")
    refused = [
        await session.ask("CreateJob", name="new", parentJobID=1),
        await session.ask("RetryJob", jobID=1, name="new"),
        await session.ask("RetryJob", jobID=2, name="new"),
    ]
    assert [reply.status for reply in refused] == [405, 405, 405]
    assert {row.jobtype for row in await list_handlers(bedrock.shop.service, "acme")} == {"acme-u", "acme-x"}


@on_every_store
@pytest.mark.parametrize("before", ["running", "deferred", "ended"])
async def test_a_retry_with_a_name_continues_the_job_under_that_name(
    bedrock: Bedrock, session: Session, clock: FakeClock, before: str
) -> None:
    await session.ask("CreateJob", name="first", data='{"n":1}', firstRun="2027-06-01" if before == "deferred" else "")
    if before != "deferred":
        await session.ask("GetJob", name="first")
    if before == "ended":
        await session.ask("FailJob", jobID=1)
    reply = await session.ask("RetryJob", jobID=1, name="second", delay=60, data='{"n":2}')
    assert reply.status == 200, reply
    assert bedrock.shop.gauge("worker_jobs_held") == 0
    for name in ("first", "second"):
        assert (await session.ask("GetJob", name=name)).status == 404
    clock.advance(61)
    assert (await session.ask("GetJob", name="first")).status == 404
    assert (await session.ask("GetJob", name="second")).json == {"data": {"n": 2}, "jobID": 1, "name": "second"}
    assert (await session.ask("FinishJob", jobID=1)).status == 200


async def test_a_retry_with_a_name_keeps_the_data_and_wakes_who_waits_for_it(bedrock: Bedrock) -> None:
    async with bedrock.session() as first, bedrock.session() as second:
        await first.ask("CreateJob", name="a", data='{"n":1}')
        await first.ask("GetJob", name="a")
        second.send("GetJob", name="b*", Connection="wait", Timeout=60_000)
        assert (await first.ask("RetryJob", jobID=1, name="bb")).status == 200
        assert (await second.reply()).json == {"data": {"n": 1}, "jobID": 1, "name": "bb"}
        assert (await first.ask("RetryJob", jobID=1, name="a")).status == 405, "it is another worker's now"
        assert (await second.ask("RetryJob", jobID=1, name="b b")).status == 402
        assert (await second.ask("FinishJob", jobID=1)).status == 200


@on_every_store
async def test_a_job_with_a_unique_name_keeps_its_name(session: Session) -> None:
    await session.ask("CreateJob", name="a", unique="true")
    await session.ask("GetJob", name="a")
    reply = await session.ask("RetryJob", jobID=1, name="b")
    assert (reply.status, "unique name" in reply.reason) == (405, True)
    assert (await session.ask("FinishJob", jobID=1)).status == 200


async def test_a_repeating_job_is_retried_when_its_next_round_comes(session: Session) -> None:
    await session.ask("CreateJob", name="x", repeat="STARTED, +1 HOUR")
    await session.ask("GetJob", name="x")
    await session.ask("RetryJob", jobID=1, delay=5)
    rows = (await session.ask("Query", query="select state, nextRun from jobs")).json
    assert rows == [["QUEUED", "2027-01-15 09:00:00"]]


@on_every_store
async def test_cancel_only_what_does_not_run(session: Session) -> None:
    await session.ask("CreateJob", name="x")
    await session.ask("CreateJob", name="x")
    await session.ask("CreateJob", name="fixed", retryAfter="+1 HOUR")
    await session.ask("GetJob", name="x")
    await session.ask("GetJob", name="fixed")
    assert (await session.ask("CancelJob", jobID=1)).status == 405
    for number in (2, 3):
        assert (await session.ask("CancelJob", jobID=number)).status == 200
        assert await state_of(session, number) == "CANCELLED"
    assert (await session.ask("CancelJob", jobID=2)).status == 200
    assert await state_of(session, 1) == "RUNNING"


async def test_delete_leaves_no_trace_and_the_number_is_not_given_again(session: Session) -> None:
    await session.ask("CreateJob", name="x")
    await session.ask("GetJob", name="x")
    assert (await session.ask("DeleteJob", jobID=1)).status == 405
    await session.ask("FinishJob", jobID=1)
    assert (await session.ask("DeleteJob", jobID=1)).status == 200
    assert (await session.ask("QueryJob", jobID=1)).status == 404
    assert (await session.ask("CreateJob", name="x")).json == {"jobID": 2}


async def test_the_data_of_a_job_that_waits_is_changed_too(session: Session) -> None:
    await session.ask("CreateJob", name="x")
    assert (await session.ask("UpdateJob", jobID=1)).reason == "Missing data"
    assert (await session.ask("UpdateJob", jobID=1, data='{"n":5}')).status == 200
    assert (await session.ask("GetJob", name="x")).json["data"] == {"n": 5}
    await session.ask("FinishJob", jobID=1)
    assert (await session.ask("UpdateJob", jobID=1, data="{}")).status == 405


async def test_an_update_renews_the_lease(bedrock: Bedrock, session: Session, clock: FakeClock) -> None:
    await session.ask("CreateJob", name="x")
    await session.ask("GetJob", name="x")
    for _ in range(3):
        clock.advance(3000)
        await bedrock.shop.daemon.store.expire_locks(now_ms=clock.now_ms())
        assert await state_of(session, 1) == "RUNNING"
        assert (await session.ask("UpdateJob", jobID=1, data="{}")).status == 200
    clock.advance(3601)
    await bedrock.shop.daemon.store.expire_locks(now_ms=clock.now_ms())
    assert await state_of(session, 1) == "QUEUED"


@on_every_store
async def test_who_lost_a_job_does_not_end_the_work_of_another(bedrock: Bedrock, clock: FakeClock) -> None:
    async with bedrock.session() as first, bedrock.session() as second:
        await first.ask("CreateJob", name="x", retryAfter="+1 MINUTE")
        await first.ask("GetJob", name="x")
        clock.advance(61)
        await bedrock.shop.daemon.store.expire_locks(now_ms=clock.now_ms())
        assert (await second.ask("GetJob", name="x")).json["jobID"] == 1
        assert (await first.ask("FinishJob", jobID=1)).status == 405
        assert (await second.ask("FinishJob", jobID=1)).status == 200


async def test_a_type_with_a_handler_is_left_to_it(bedrock: Bedrock, session: Session) -> None:
    service = bedrock.shop.service
    await put_handler(service, ACME, "ours", {"lang": "python", "body": "return 1"})
    service.control.pause()
    await session.ask("CreateJob", name="ours")
    assert (await session.ask("GetJob", name="ours")).status == 404
    assert (await get_handler(service, "acme", "ours")).version == 1
    await session.ask("CreateJob", name="theirs")
    assert (await get_handler(service, "acme", "theirs")).lang == "worker"


async def test_jobs_of_other_ways_are_taken_listed_and_numbered(bedrock: Bedrock, session: Session) -> None:
    await bedrock.shop.serve("resize")
    ids = await bedrock.shop.post("plain text", '{"n":1}')
    assert (await session.ask("Query", query="select jobID, data from jobs")).json == [
        [1, "plain text"],
        [2, {"n": 1}],
    ]
    assert (await session.ask("GetJob", name="res*")).json == {"data": "plain text", "jobID": 1, "name": "resize"}
    await cancel_job(bedrock.shop.service, "acme", ids[1])
    assert await state_of(session, 2) == "CANCELLED"


@pytest.mark.parametrize(
    ("command", "parameters", "status", "reason"),
    [
        ("Nonsense", {}, 430, "Unrecognized command"),
        ("CreateJob", {}, 402, "Missing name"),
        ("CreateJob", {"name": "a b"}, 402, "name: must be a letter or digit"),
        ("CreateJob", {"name": "x", "data": "{"}, 402, "Data is not a valid JSON"),
        ("CreateJob", {"name": "x", "data": "5"}, 402, "Data is not a valid JSON"),
        ("CreateJob", {"name": "x", "repeat": "now and then"}, 402, "repeat"),
        ("CreateJob", {"name": "x", "unique": "perhaps"}, 402, "unique: must be true or false"),
        ("CreateJob", {"name": "x", "firstRun": "soon"}, 402, "firstRun "),
        ("CreateJob", {"name": "x", "retryAfter": "+1 HOUR", "unique": "true"}, 402, "either retryAfter or unique"),
        ("CreateJob", {"name": "x", "parentJobID": "7"}, 404, "parentJobID does not exist"),
        ("CreateJob", {"name": "x", "parentJobID": "-1"}, 402, "parentJobID: must be a whole number"),
        ("CreateJobs", {}, 402, "Missing jobs"),
        ("CreateJobs", {"jobs": "[]"}, 401, "Invalid JSON"),
        ("CreateJobs", {"jobs": "[1]"}, 401, "job 1: Invalid JSON"),
        ("CreateJobs", {"jobs": "[{}]"}, 402, "job 1: Missing name"),
        ("GetJob", {"name": "x", "numResults": "2"}, 402, "numResults is for GetJobs"),
        (
            "CreateJob",
            {"name": "x", "firstRun": "2024-02-30 00:00:00"},
            402,
            "firstRun '2024-02-30 00:00:00' is neither",
        ),
        ("CreateJob", {"name": "x", "retryAfter": "soon"}, 402, "retryAfter: "),
        ("GetJobs", {"name": "x"}, 402, "Missing numResults"),
        ("GetJobs", {"name": "x", "numResults": "0"}, 402, "numResults: must be a whole number between 1 and 1000"),
        ("GetJob", {"name": "x", "connection": "wait", "timeout": "1"}, 303, "Timeout"),
        ("QueryJob", {"jobID": "one"}, 402, "jobID: must be a whole number"),
        ("QueryJob", {"jobID": "99999999999999999999"}, 402, "jobID: must be a whole number"),
        ("DeleteJob", {}, 402, "Missing jobID"),
        ("Query", {"query": "delete from jobs"}, 402, "query: not understood near 'delete'"),
    ],
)
async def test_what_is_wrong_is_said(
    session: Session, command: str, parameters: dict[str, str], status: int, reason: str
) -> None:
    reply = await session.ask(command, **parameters)
    assert reply.status == status, reply
    assert reason in reply.reason
    assert (await session.ask("GetJob", name="x")).status == 404, "the connection goes on, and nothing was made"
