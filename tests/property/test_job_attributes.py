"""The codec of job options: through the journal and back, nothing is lost and nothing is added."""

from hypothesis import given
from hypothesis import strategies as st

from functory.intake.job_options import (
    PLAIN,
    JobOptions,
    from_attributes,
    new_job,
    to_attributes,
    to_new_job,
    to_new_jobs,
)
from journal import JournalOptions, Record
from journal.format import decode_frame, decode_records
from journal.ids import IdSource
from journal.writes import frame_batches, lay_out, make_write, to_payloads

TEXT = st.text(st.characters(codec="utf-8"), max_size=60)
TIMES = st.integers(0, 253_402_300_799_999)
OPTIONS = st.builds(
    JobOptions,
    dt_ms=st.none() | TIMES,
    priority=st.sampled_from([0, 500, 1000]),
    domain=TEXT,
    options=TEXT,
    retry_after_ms=st.none() | st.integers(1, 10**12),
    indexed=st.booleans(),
    repeat=TEXT,
    key=TEXT,
)


@given(OPTIONS, st.lists(st.binary(max_size=30), min_size=1, max_size=5), TIMES)
def test_options_survive_the_journals_format(options: JobOptions, payloads: list[bytes], now_ms: int) -> None:
    limits = JournalOptions()
    ids = IdSource("a7").take(len(payloads), 1_800_000_000_123)
    write = make_write(ids, "acme-thumb", to_payloads(payloads, limits), to_attributes(options), 1, limits)
    frame = decode_frame(frame_batches(lay_out([write]), 0, 7), 0, 0, 7)
    assert not isinstance(frame, int)
    assert frame is not None
    records = decode_records(frame)
    jobs = to_new_jobs(records, now_ms)
    assert jobs == [to_new_job(record, now_ms) for record in records]
    expected = [
        new_job(job_id, "acme-thumb", payload, options, now_ms)
        for job_id, payload in zip(ids.texts(), payloads, strict=True)
    ]
    assert jobs == expected
    assert {job.create_ms for job in jobs} == {1_800_000_000_123}
    due_ms = min(1_800_000_000_123, now_ms) if options.dt_ms is None else options.dt_ms
    assert {job.dt_ms for job in jobs} == {due_ms}


@given(OPTIONS)
def test_only_what_differs_from_the_default_is_written(options: JobOptions) -> None:
    attributes = to_attributes(options)
    assert from_attributes(attributes) == options
    differing = sum(mine != default for mine, default in zip(options, PLAIN, strict=True))
    assert len(attributes) == differing


def test_attributes_of_a_newer_version_are_left_alone() -> None:
    record = Record("20270115T080000000Z-a7-000000", "a-b", b"", {"colour": "red", "priority": "0"})
    assert to_new_job(record, 0).priority == 0


def test_each_batch_has_its_own_options() -> None:
    ids = IdSource("a7").take(3, 1_800_000_000_000).texts()
    shared = {"priority": "1000"}
    records = [Record(ids[0], "a-b", b"", shared), Record(ids[1], "a-b", b"", shared), Record(ids[2], "a-b", b"", {})]
    assert [job.priority for job in to_new_jobs(records, 0)] == [1000, 1000, 500]
