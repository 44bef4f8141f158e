"""A job's options in the journal: as text attributes of a batch, and back into the store's NewJob.

The only codec: submit writes with it, the journal reader reads with it. Only what differs from the default is written,
so most batches have no attribute. Unknown names are ignored: a newer daemon may have written them. `unique` and
`parent` have no attribute, because such jobs never pass through the journal. Nor do jobs whose options are too long
for the header of a batch (`fit_journal`): they go to the store at once, too.

Which job a job follows is no attribute: it differs from line to line, and a batch for each line would cost a flood of
results that are passed on several times as much. It is the note of the line, and joins the options when that becomes a
job.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, repeat
from typing import Final, NamedTuple

from journal import Record, do_attributes_fit, parse_id
from store.base import NewJob
from vocabulary.columns import fields, make_all
from vocabulary.origin import with_origin

DEFAULT_PRIORITY: Final = 500


class JobOptions(NamedTuple):
    """A job's options beside its payload. dt_ms None: eligible at once. The others but the key are in
    the order of the fields of NewJob."""

    dt_ms: int | None = None
    priority: int = DEFAULT_PRIORITY
    domain: str = ""
    options: str = ""
    retry_after_ms: int | None = None
    indexed: bool = False
    repeat: str = ""
    key: str = ""


PLAIN: Final = JobOptions()
_NO_ATTRIBUTES: Final[Mapping[str, str]] = {}
_STAMP_CHARS: Final = 19
"""Length of the time at the start of an id."""
_SECOND_CHARS: Final = 15
"""Of that, up to its milliseconds."""
_LATE_MS: Final = 60_000
_FIT_CHARS: Final = 200
"""Options with no more text than this fit, whatever the text: a character becomes twelve at most."""
_ATTRIBUTES: Final = fields(Record, "attributes")


def fit_journal(options: JobOptions) -> bool:
    """Whether jobs with these options can go through the journal."""
    if options is PLAIN:
        return True
    _, _, domain, text, _, _, repeat_text, key = options
    if len(domain) + len(text) + len(repeat_text) + len(key) <= _FIT_CHARS:
        return True
    return do_attributes_fit(to_attributes(options))


def to_attributes(options: JobOptions) -> Mapping[str, str]:
    """The attributes of a batch whose lines all have these options."""
    if options == PLAIN:
        return _NO_ATTRIBUTES
    attributes: dict[str, str] = {}
    if options.dt_ms is not None:
        attributes["dt"] = str(options.dt_ms)
    if options.priority != DEFAULT_PRIORITY:
        attributes["priority"] = str(options.priority)
    if options.domain:
        attributes["domain"] = options.domain
    if options.options:
        attributes["options"] = options.options
    if options.retry_after_ms is not None:
        attributes["retry_after"] = str(options.retry_after_ms)
    if options.indexed:
        attributes["indexed"] = "1"
    if options.repeat:
        attributes["repeat"] = options.repeat
    if options.key:
        attributes["key"] = options.key
    return attributes


def from_attributes(attributes: Mapping[str, str]) -> JobOptions:
    """The options of a batch. Raises ValueError for a bad number, which no version of this codec wrote."""
    if not attributes:
        return PLAIN
    dt, retry_after = attributes.get("dt"), attributes.get("retry_after")
    return JobOptions(
        dt_ms=None if dt is None else int(dt),
        priority=int(attributes.get("priority", DEFAULT_PRIORITY)),
        domain=attributes.get("domain", ""),
        options=attributes.get("options", ""),
        retry_after_ms=None if retry_after is None else int(retry_after),
        indexed=attributes.get("indexed") == "1",
        repeat=attributes.get("repeat", ""),
        key=attributes.get("key", ""),
    )


def to_new_jobs(records: Iterable[Record], now_ms: int) -> list[NewJob]:
    """The jobs of journal lines. Attributes are decoded once for each batch, whose lines share one mapping."""
    jobs: list[NewJob] = []
    for attributes, lines in groupby(records, _ATTRIBUTES):
        ids, jobtypes, payloads, _, notes = zip(*lines, strict=True)
        jobs += _in_columns(ids, jobtypes, payloads, notes, from_attributes(attributes), now_ms)
    return jobs


def _in_columns(
    ids: Sequence[str],
    jobtypes: Iterable[str],
    payloads: Iterable[bytes],
    notes: Sequence[str],
    options: JobOptions,
    now_ms: int,
) -> list[NewJob]:
    """notes: one for each, or none."""
    dt_ms, priority, domain, text, *others, key = options
    stamps = [job_id[:_STAMP_CHARS] for job_id in ids]
    times_ms = {stamp: _time_of(stamp) for stamp in set(stamps)}
    created = [times_ms[stamp] for stamp in stamps]
    anchored = _is_anchored(options)
    dues_ms = {create_ms: _due_ms(create_ms, dt_ms, now_ms, anchored) for create_ms in times_ms.values()}
    due = [dues_ms[create_ms] for create_ms in created]
    texts = [with_origin(text, note) if note else text for note in notes] if any(notes) else repeat(text)
    shared = map(repeat, (*others, "", "", key))  # neither unique nor parent
    return make_all(NewJob, ids, jobtypes, payloads, due, created, repeat(priority), repeat(domain), texts, *shared)


def to_new_job(record: Record, now_ms: int) -> NewJob:
    return new_job(record.id, record.jobtype, record.payload, from_attributes(record.attributes), now_ms, record.note)


def new_job(job_id: str, jobtype: str, data: bytes, options: JobOptions, now_ms: int, note: str = "") -> NewJob:
    """A job as the store takes it. It was created at the time in its id. note: about the job that it follows."""
    if note:
        options = options._replace(options=with_origin(options.options, note))
    create_ms = _time_of(job_id[:_STAMP_CHARS])
    due_ms = _due_ms(create_ms, options.dt_ms, now_ms, _is_anchored(options))
    return NewJob(job_id, jobtype, data, due_ms, create_ms, *options[1:7], "", "", options.key)


def new_jobs(
    ids: Sequence[str], jobtype: str, lines: Sequence[bytes], options: JobOptions, now_ms: int, notes: Sequence[str]
) -> list[NewJob]:
    """Jobs of one write; notes: one for each, or none."""
    if len(ids) == 1:
        return [new_job(ids[0], jobtype, lines[0], options, now_ms, *notes)]
    return _in_columns(ids, repeat(jobtype), lines, notes, options, now_ms)


def _is_anchored(options: JobOptions) -> bool:
    """Whether the first round was given a time, from which others are counted: it must stay."""
    return bool(options.repeat) and options.dt_ms is not None


def _due_ms(create_ms: int, dt_ms: int | None, now_ms: int, anchored: bool) -> int:
    """When a job is due. Without dt_ms that is its creation; but an id may run ahead of a clock that was set back, and
    that must not defer the job. One whose line was long in a journal waits from now on, so that it is neither abandoned
    for its age nor without a retry window. It keeps _LATE_MS of its age, so that it is due before those that came
    after it."""
    due_ms = min(now_ms, create_ms) if dt_ms is None else dt_ms
    late_ms = now_ms - _LATE_MS
    return due_ms if anchored or create_ms >= late_ms else max(due_ms, late_ms)


def _time_of(stamp: str) -> int:
    """Milliseconds of `20261114T235959123Z`."""
    return _second_of(stamp[:_SECOND_CHARS]) + int(stamp[_SECOND_CHARS:-1])


@lru_cache(maxsize=4096)
def _second_of(stamp: str) -> int:
    """Milliseconds of `20261114T235959`, which many ids in a row share."""
    return parse_id(f"{stamp}000Z-0-000000").time_ms
