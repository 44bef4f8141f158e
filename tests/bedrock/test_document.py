"""The document of Bedrock::Jobs, sentence by sentence, as far as no other test says it. Names of tests quote it.

What is not true here is listed in docs/jobs.md, "Differences from Bedrock::Jobs".
"""

from tests.support.bedrock import Bedrock, Session
from tests.support.clocks import FakeClock


async def column(session: Session, name: str, number: int = 1) -> object:
    names = ("created", "state", "name", "nextRun", "repeat", "priority")
    statement = "select created, state, name, nextRun, repeat, priority from jobs where jobID = "
    (row,) = (await session.ask("Query", query=f"{statement}{number}")).json
    return row[names.index(name)]


async def lapse(bedrock: Bedrock, clock: FakeClock, seconds: float) -> None:
    clock.advance(seconds)
    await bedrock.shop.daemon.store.expire_locks(now_ms=clock.now_ms())


# Job State and the Lifecycle of a Job


async def test_queued_running_finished_failed_cancelled(session: Session) -> None:
    for _ in range(4):
        await session.ask("CreateJob", name="x")
    assert [await column(session, "state", number) for number in (1, 2, 3, 4)] == ["QUEUED"] * 4
    for _ in range(3):
        await session.ask("GetJob", name="x")
    await session.ask("FinishJob", jobID=1)
    await session.ask("FailJob", jobID=2)
    await session.ask("CancelJob", jobID=4)
    states = [await column(session, "state", number) for number in (1, 2, 3, 4)]
    assert states == ["FINISHED", "FAILED", "RUNNING", "CANCELLED"], "with two Ls"


async def test_runqueued_if_the_client_never_reports_back_it_will_be_run_again_at_next_run(
    bedrock: Bedrock, session: Session, clock: FakeClock
) -> None:
    await session.ask("CreateJob", name="x", retryAfter="+1 MINUTE")
    clock.advance(10)
    await session.ask("GetJob", name="x")
    assert await column(session, "state") == "RUNQUEUED"
    assert await column(session, "nextRun") == "2027-01-15 08:01:10", "set at dequeue time"
    await lapse(bedrock, clock, 59)
    assert (await session.ask("GetJob", name="x")).status == 404
    await lapse(bedrock, clock, 2)
    assert (await session.ask("GetJob", name="x")).json["jobID"] == 1


async def test_retry_after_a_job_that_is_reported_in_time_is_not_dequeued_again(
    bedrock: Bedrock, session: Session, clock: FakeClock
) -> None:
    await session.ask("CreateJob", name="x", retryAfter="+1 MINUTE")
    await session.ask("GetJob", name="x")
    assert (await session.ask("FinishJob", jobID=1)).status == 200
    await lapse(bedrock, clock, 3600)
    assert (await session.ask("GetJob", name="x")).status == 404


async def test_failed_jobs_wont_be_automatically_deleted_and_finished_ones_are(
    bedrock: Bedrock, session: Session, clock: FakeClock
) -> None:
    for command in ("FinishJob", "FailJob"):
        await session.ask("CreateJob", name="x")
        number = (await session.ask("GetJob", name="x")).json["jobID"]
        await session.ask(command, jobID=number)
    clock.advance(5 * 365 * 86_400)
    await bedrock.shop.daemon.upkeep.purge()
    assert (await session.ask("QueryJob", jobID=1)).status == 404
    assert (await session.ask("QueryJob", jobID=2)).json["state"] == "FAILED"


# The Relationship Between Parent and Child Jobs


async def test_children_of_a_running_parent_are_paused_and_of_a_paused_one_queued(session: Session) -> None:
    await session.ask("CreateJob", name="parent")
    await session.ask("GetJob", name="parent")
    await session.ask("CreateJob", name="child", parentJobID=1)
    assert await column(session, "state", 2) == "PAUSED"
    assert (await session.ask("GetJob", name="child")).status == 404, "PAUSED jobs can't be dequeued"
    await session.ask("FinishJob", jobID=1)
    assert [await column(session, "state", number) for number in (1, 2)] == ["PAUSED", "QUEUED"]
    await session.ask("GetJob", name="child")
    await session.ask("CreateJob", name="child", parentJobID=1)  # a child makes a sibling on behalf of their parent
    assert await column(session, "state", 3) == "QUEUED"
    await session.ask("FinishJob", jobID=2)
    assert await column(session, "state", 1) == "PAUSED", "one child is pending"
    await session.ask("GetJob", name="child")
    await session.ask("FinishJob", jobID=3)
    assert await column(session, "state", 1) == "QUEUED", "so that it will run again"


async def test_child_jobs_can_only_be_created_for_parents_that_are_running_or_paused(session: Session) -> None:
    await session.ask("CreateJob", name="parent")
    assert (await session.ask("CreateJob", name="child", parentJobID=1)).status == 405
    await session.ask("GetJob", name="parent")
    await session.ask("FinishJob", jobID=1)
    assert (await session.ask("CreateJob", name="child", parentJobID=1)).status == 405
    assert (await session.ask("Query", query="select count(*) from jobs")).json == [[1]]


async def test_a_parent_that_repeats_is_told_of_the_children_of_its_round(session: Session, clock: FakeClock) -> None:
    await session.ask("CreateJob", name="parent", repeat="HOURLY")
    for child in (2, 3):
        assert "finishedChildJobs" not in (await session.ask("GetJob", name="parent")).json
        await session.ask("CreateJob", name="child", parentJobID=1)
        await session.ask("FinishJob", jobID=1)
        await session.ask("GetJob", name="child")
        await session.ask("FinishJob", jobID=child)
        again = (await session.ask("GetJob", name="parent")).json
        assert [each["jobID"] for each in again["finishedChildJobs"]] == [child]
        await session.ask("FinishJob", jobID=1)
        clock.advance(3601)


# CreateJob and CreateJobs


async def test_what_is_not_supplied_has_its_default(session: Session) -> None:
    await session.ask("CreateJob", name="x")
    reply = await session.ask("Query", query="select priority, nextRun, repeat, retryAfter, data from jobs")
    assert reply.json == [[500, "2027-01-15 08:00:00", "", "", {}]]


async def test_unique_updates_the_stored_values_for_repeat_data_and_priority(session: Session) -> None:
    first = await session.ask("CreateJob", name="u", unique="true", data='{"a":1}', repeat="HOURLY", jobPriority=0)
    more = {"data": '{"a":2}', "repeat": "DAILY", "jobPriority": 1000}
    assert (await session.ask("CreateJob", name="u", unique="true", **more)).json == first.json
    reply = await session.ask("Query", query="select data, repeat, priority from jobs")
    assert reply.json == [[{"a": 2}, "DAILY", 1000]]


async def test_what_a_second_unique_job_does_not_say_stays(session: Session) -> None:
    await session.ask("CreateJob", name="u", unique="true", data='{"a":1}', repeat="HOURLY", jobPriority=0)
    await session.ask("CreateJob", name="u", unique="true")
    await session.ask("CreateJobs", jobs='[{"name":"u","unique":true,"jobPriority":1000}]')
    reply = await session.ask("Query", query="select data, repeat, priority from jobs")
    assert reply.json == [[{"a": 1}, "HOURLY", 1000]]


async def test_create_jobs_returns_an_entry_for_each_of_the_jobs(session: Session) -> None:
    jobs = '[{"name":"a"},{"name":"u","unique":true},{"name":"u","unique":true},{"name":"b"}]'
    numbers = (await session.ask("CreateJobs", jobs=jobs)).json["jobIDs"]
    assert numbers[1] == numbers[2], "the existing one"
    assert [await column(session, "name", number) for number in numbers] == ["a", "u", "u", "b"]


async def test_first_run_is_a_date_with_or_without_a_time(session: Session, clock: FakeClock) -> None:
    await session.ask("CreateJob", name="x", firstRun="2027-01-15 08:00:30")
    await session.ask("CreateJob", name="y", firstRun="2027-01-16")
    assert (await session.ask("GetJob", name="[xy]")).status == 404
    clock.advance(31)
    assert (await session.ask("GetJob", name="[xy]")).json["name"] == "x"
    clock.advance(16 * 3600)
    assert (await session.ask("GetJob", name="[xy]")).json["name"] == "y"


# GetJob, UpdateJob, QueryJob, DeleteJob, RetryJob


async def test_get_job_of_a_pattern_gets_a_job_whose_name_starts_so(session: Session) -> None:
    for name in ("Bar", "FooBar", "foo"):
        await session.ask("CreateJob", name=name)
    assert (await session.ask("GetJob", name="Foo*")).json["name"] == "FooBar"
    assert (await session.ask("GetJob", name="Foo*")).status == 404


async def test_delete_job_removes_all_trace(session: Session) -> None:
    await session.ask("CreateJob", name="x", data='{"secret":1}')
    assert (await session.ask("DeleteJob", jobID=1)).status == 200
    for command in ("QueryJob", "DeleteJob", "FinishJob", "CancelJob"):
        assert (await session.ask(command, jobID=1)).status == 404
    assert (await session.ask("Query", query="select * from jobs")).json == []
    assert (await session.ask("CreateJob", name="x")).json == {"jobID": 2}, "its number is never given again"


async def test_retry_job_with_next_run_ignores_the_delay_and_both_are_ignored_if_it_repeats(session: Session) -> None:
    await session.ask("CreateJob", name="x")
    await session.ask("CreateJob", name="y", repeat="STARTED, +1 HOUR")
    for number, name in ((1, "x"), (2, "y")):
        await session.ask("GetJob", name=name)
        await session.ask("RetryJob", jobID=number, nextRun="2027-06-01 12:00:00", delay=7)
    assert await column(session, "nextRun", 1) == "2027-06-01 12:00:00"
    assert await column(session, "nextRun", 2) == "2027-01-15 09:00:00"


# Repeat Syntax


EXAMPLES = {
    "FINISHED, +1 HOUR": "2027-01-15 14:00:00",
    "FINISHED, +1 DAY, START OF DAY, +4 HOURS": "2027-01-16 04:00:00",
    "FINISHED, +1 DAY, WEEKDAY 1, START OF DAY, +6 HOURS": "2027-01-18 06:00:00",
    "HOURLY": "2027-01-15 14:00:00",
    "DAILY": "2027-01-16 13:00:00",
    "WEEKLY": "2027-01-22 13:00:00",
    "FINISHED, +90 MINUTES": "2027-01-15 14:30:00",
    "FINISHED, +1 MONTHS, -1 DAYS": "2027-02-14 13:00:00",
    "FINISHED, +1 YEARS, START OF YEAR": "2028-01-01 00:00:00",
    "FINISHED, +1 MONTHS, START OF MONTH": "2027-02-01 00:00:00",
}


async def next_runs(session: Session, clock: FakeClock, repeats: list[str], late_s: float, lasts_s: float) -> list[str]:
    """Of jobs that are planned for 13:00, start late_s later and last for lasts_s."""
    for number, repeat in enumerate(repeats, start=1):
        await session.ask("CreateJob", name=f"r{number}", repeat=repeat, firstRun="2027-01-15 13:00:00")
    clock.advance(5 * 3600 + late_s)
    for number in range(1, len(repeats) + 1):
        assert (await session.ask("GetJob", name=f"r{number}")).json["jobID"] == number
    clock.advance(lasts_s)
    for number in range(1, len(repeats) + 1):
        assert (await session.ask("FinishJob", jobID=number)).status == 200
    return [row[0] for row in (await session.ask("Query", query="select nextRun from jobs order by jobID")).json]


async def test_repeat_base_scheduled_at_1_started_at_1_15_took_30_minutes(session: Session, clock: FakeClock) -> None:
    bases = ["SCHEDULED, +1 HOUR", "STARTED, +1 HOUR", "FINISHED, +1 HOUR"]
    found = await next_runs(session, clock, bases, 900, 1800)
    assert found == ["2027-01-15 14:00:00", "2027-01-15 14:15:00", "2027-01-15 14:45:00"]


async def test_repeat_examples_modifiers_and_canned_schedules(session: Session, clock: FakeClock) -> None:
    assert await next_runs(session, clock, list(EXAMPLES), 0, 0) == list(EXAMPLES.values())


async def test_scheduled_runs_multiple_times_back_to_back_if_hours_were_missed(
    session: Session, clock: FakeClock
) -> None:
    await session.ask("CreateJob", name="x", repeat="SCHEDULED, +1 HOUR")
    clock.advance(3 * 3600 + 60)
    for _ in range(4):
        assert (await session.ask("GetJob", name="x")).json["jobID"] == 1
        await session.ask("FinishJob", jobID=1)
    assert (await session.ask("GetJob", name="x")).status == 404
    assert await column(session, "nextRun") == "2027-01-15 12:00:00"
