"""Log lines: one line whatever the fields hold, in both styles."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from functory.logs import Style, configure_logging, format_line
from functory.loops.job_log import JobLog
from store.base import Code, Job, Outcome

HOSTILE = 'a "b"=c\n2026-11-14T00:00:00Z INFO forged\x1b[31m \u202e\ud800'
NOW_MS = 1_794_700_799_123


def job(job_id: str, jobtype: str = "acme-x", *, attempts: int = 1, due_ms: int = NOW_MS) -> Job:
    return Job(job_id, jobtype, b"", NOW_MS, "a7", 1, attempts, 500, due_ms, NOW_MS)


def outcome(code: Code = Code.OK, exitcode: int = 200, duration_us: int = 3000) -> Outcome:
    return Outcome(code, exitcode, NOW_MS, duration_us)


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    yield logging.getLogger("test.logs")
    logging.captureWarnings(capture=False)
    root.handlers[:], root.level = before


def test_people_read_key_value(log: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logging("text", "INFO", stream)
    log.info("journal.recovered", extra={"segment": 3, "found": "a torn write"})
    log.debug("not shown")
    moment, rest = stream.getvalue().split(" ", 1)
    assert moment.endswith("Z")
    assert rest == 'INFO journal.recovered segment=3 found="a torn write"\n'


def test_machines_read_json(log: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logging("json", "INFO", stream)
    try:
        int("no number")
    except ValueError:
        log.exception("it.broke", extra={"value": HOSTILE})
    (line,) = stream.getvalue().splitlines()
    record = json.loads(line)
    assert (record["event"], record["level"], record["value"]) == ("it.broke", "ERROR", HOSTILE)
    assert "ValueError" in record["trace"]


def broken(why: str) -> None:
    raise ValueError(why)


def test_a_trace_below_its_line_is_readable_and_forges_nothing(log: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logging("text", "INFO", stream, has_traces_below=True)
    try:
        broken(HOSTILE)
    except ValueError:
        log.exception("it.broke", extra={"value": 1})
    first, *trace = stream.getvalue().splitlines()
    assert first.endswith(" ERROR it.broke value=1")
    assert trace[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") and line.isprintable() for line in trace)
    assert trace[-1] == "    2026-11-14T00:00:00Z INFO forged\\x1b[31m \\u202e\\ud800"


@pytest.mark.parametrize("has_traces_below", [False, True])
def test_a_trace_has_a_longest_length(log: logging.Logger, *, has_traces_below: bool) -> None:
    stream = io.StringIO()
    configure_logging("text", "INFO", stream, has_traces_below=has_traces_below)
    try:
        broken(f"begins{'x' * 1_000_000}ends")
    except ValueError:
        log.exception("it.broke")
    text = stream.getvalue()
    assert len(text) < 20_000
    assert "Traceback" in text
    assert "begins" in text
    assert "ends" in text
    assert "characters left out" in text


def test_no_value_breaks_the_line_or_reaches_the_terminal() -> None:
    line = format_line("text", NOW_MS, "INFO", HOSTILE, {"value": HOSTILE, "empty": ""})
    assert line.isprintable()
    assert line.isascii()
    assert line.count("forged") == 2
    assert line.endswith('empty=""')


def test_a_line_for_each_job_that_enters_starts_and_stops() -> None:
    written: list[str] = []
    jobs = JobLog(written.append)
    jobs.entered(["id1", "id2"], ["acme-x", "acme-x"], [b"12345", b"123456"], NOW_MS)
    jobs.started([job("id1", due_ms=NOW_MS - 12)._replace(create_ms=NOW_MS - 20)], NOW_MS)
    jobs.started([job("id1", due_ms=0)._replace(create_ms=NOW_MS - 20)], NOW_MS)
    jobs.stopped([job("id1")], [outcome()], NOW_MS)
    jobs.stopped([], [], NOW_MS)
    moment = "2026-11-14T23:59:59.123Z"
    assert written[0].splitlines() == [
        f"{moment} INFO job.entered id=id1 jobtype=acme-x size_bytes=5",
        f"{moment} INFO job.entered id=id2 jobtype=acme-x size_bytes=6",
    ]
    assert written[1:] == [
        f"{moment} INFO job.started id=id1 jobtype=acme-x attempt=1 waited_ms=12\n",
        f"{moment} INFO job.started id=id1 jobtype=acme-x attempt=1 waited_ms=20\n",
        f"{moment} INFO job.stopped id=id1 jobtype=acme-x attempt=1 code=ok exitcode=200 duration_ms=3\n",
    ]


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_line_is_the_same_alone_and_among_others(style: Style) -> None:
    jobs = [job("id1"), job("id2"), job("id3", attempts=2), job("id4", "acme-y", attempts=2)]
    outcomes = [outcome(), outcome(), outcome(duration_us=4999), outcome(Code.FAILED, 404, 4000)]
    for first in range(len(jobs)):
        for end in range(first + 1, len(jobs) + 1):
            alone: list[str] = []
            together: list[str] = []
            for number in range(first, end):
                JobLog(alone.append, style).stopped([jobs[number]], [outcomes[number]], NOW_MS)
            JobLog(together.append, style).stopped(jobs[first:end], outcomes[first:end], NOW_MS)
            assert together == ["".join(alone)]


def test_job_lines_in_json() -> None:
    written: list[str] = []
    JobLog(written.append, "json").stopped([job("id1", attempts=2)], [outcome(Code.ERROR, 500)], NOW_MS)
    assert json.loads(written[0]) == {
        "time": "2026-11-14T23:59:59.123Z",
        "level": "INFO",
        "event": "job.stopped",
        "id": "id1",
        "jobtype": "acme-x",
        "attempt": 2,
        "code": "error",
        "exitcode": 500,
        "duration_ms": 3,
    }


def test_an_outage_of_the_store_is_told_once_a_minute_by_each_who_meets_it(log: logging.Logger) -> None:
    stream = io.StringIO()
    configure_logging("text", "INFO", stream)

    def lines(event: str, *times_s: float) -> list[str]:
        stream.seek(stream.truncate(0))
        for time_s in times_s:
            record = log.makeRecord(log.name, logging.WARNING, "", 0, event, (), None, extra={"reason": "away"})
            record.created = 1_000_000 + time_s
            log.handle(record)
        return [line.split(" ", 2)[2] for line in stream.getvalue().splitlines()]

    told = "execute.store_unavailable reason=away"
    assert lines("execute.store_unavailable", 0, 0.3, *range(1, 60)) == [told]
    assert lines("upkeep.store_unavailable", 59) == ["upkeep.store_unavailable reason=away"], "that is another loop"
    assert lines("execute.store_unavailable", 60, 61) == [f"{told} left_out=60"]
    assert lines("execute.store_unavailable", 72, 73) == [f"{told} left_out=1"], "another outage"
    assert lines("execute.store_unavailable", -500, -499) == [f"{told} left_out=1"], "the clock was set back"
    assert lines("execute.batch_failed", 0, 0, 0) == ["execute.batch_failed reason=away"] * 3
