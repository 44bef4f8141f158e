"""The codec of job options: through the journal and back, nothing is lost and nothing is added."""

from hypothesis import given
from hypothesis import strategies as st

from functory.intake.job_options import (
    PLAIN,
    JobOptions,
    from_attributes,
    new_job,
    new_jobs,
    to_attributes,
    to_new_job,
    to_new_jobs,
)
from journal import JournalOptions, Record
from journal.format import decode_frame, decode_records
from journal.ids import IdSource
from journal.payloads import to_payloads
from journal.writes import frame_batches, lay_out, make_write
from vocabulary.origin import with_origin

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


@given(OPTIONS, st.lists(st.binary(max_size=30), min_size=1, max_size=5), TIMES, st.booleans())
def test_options_survive_the_journals_format(
    options: JobOptions, payloads: list[bytes], now_ms: int, has_notes: bool
) -> None:
    limits = JournalOptions()
    ids = IdSource("a7").take(len(payloads), 1_800_000_000_123)
    notes = [f"j{number} a ok" for number in range(len(payloads))] if has_notes else []
    write = make_write(ids, "acme-thumb", to_payloads(payloads, limits), to_attributes(options), 1, notes)
    frame = decode_frame(frame_batches(lay_out([write]), 0, 7), 0, 0, 7)
    assert not isinstance(frame, int)
    assert frame is not None
    records = decode_records(frame)
    jobs = to_new_jobs(records, now_ms)
    assert jobs == [to_new_job(record, now_ms) for record in records]
    assert jobs == new_jobs(ids.texts(), "acme-thumb", payloads, options, now_ms, notes)
    texts = [with_origin(options.options, note) for note in notes] or [options.options] * len(payloads)
    assert [(job.data, job.options) for job in jobs] == list(zip(payloads, texts, strict=True))
    assert {job.create_ms for job in jobs} == {1_800_000_000_123}
    due_ms = min(1_800_000_000_123, now_ms) if options.dt_ms is None else options.dt_ms
    if now_ms - 60_000 > 1_800_000_000_123 and (options.dt_ms is None or not options.repeat):  # they are read late
        due_ms = max(due_ms, now_ms - 60_000)
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


@given(st.lists(st.integers(0, 200_000), min_size=2, max_size=20), st.integers(0, 100_000))
def test_lines_that_are_read_late_keep_their_order_and_lose_their_age(ages_ms: list[int], later_ms: int) -> None:
    """Also against those that are read after them."""
    now_ms = 1_800_000_000_000
    source = IdSource("a7")
    ids = [source.take(1, now_ms - age_ms).texts()[0] for age_ms in sorted(ages_ms, reverse=True)]
    half = len(ids) // 2
    reads = [(job_id, now_ms if n < half else now_ms + later_ms) for n, job_id in enumerate(ids)]
    jobs = [new_job(job_id, "acme-thumb", b"", PLAIN, read_ms) for job_id, read_ms in reads]
    places = [(job.dt_ms, job.id) for job in jobs]
    assert places == sorted(places)
    assert all(job.dt_ms >= read_ms - 60_000 for job, (_, read_ms) in zip(jobs, reads, strict=True))


def test_what_was_given_a_time() -> None:
    """A repeating job counts its rounds from it. Another waits from when it is read, if that is late."""
    now_ms, hour_ms = 1_800_000_000_000, 3_600_000
    (late,) = IdSource("a7").take(1, now_ms - 10 * hour_ms).texts()
    (fresh,) = IdSource("a7").take(1, now_ms).texts()

    def due_ms(job_id: str, dt_ms: int, repeat: str = "") -> int:
        return new_job(job_id, "acme-thumb", b"", JobOptions(dt_ms, repeat=repeat), now_ms).dt_ms - now_ms

    assert due_ms(late, now_ms - 9 * hour_ms) == -60_000
    assert due_ms(late, now_ms + hour_ms) == hour_ms
    assert due_ms(late, now_ms - 9 * hour_ms, "SCHEDULED, +1 HOUR") == -9 * hour_ms
    assert due_ms(fresh, now_ms - 9 * hour_ms) == -9 * hour_ms
