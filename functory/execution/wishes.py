"""The jobs that a run asked for: their options read, and the two ways that they go.

    J: mail|hello                                a plain job: through the journal
    J: mail?delay_s=60&priority=1000|hello       the same, with options
    J: mail?unique=daily|hello                   one with a unique name, and one with a parent: into the store,
    J: mail?child=1|hello                        in the write that ends the run

Options read like the query of the route that adds jobs. `child` makes a child of the job itself, `sibling` one of its
parent. If one of a run's jobs goes into the store, all of them do: they are made together, or not at all. So do all
jobs that a numbered job asks for, when it completes: the next stage of a pipeline gets each of them once. And so do
those whose options are too long for the journal.
What cannot be read is InvalidInput, and the outcome of the job that asked for it.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from functory.errors import InvalidInput
from functory.execution.afterwards import MOST_LINKS, options_of
from functory.intake.job_options import DEFAULT_PRIORITY, PLAIN, JobOptions, fit_journal, new_job
from functory.wire.base import MAX_DELAY_S
from store.base import Archive, Code, Creation, Discard, Finish, Job, NewJob, Release
from store.checks import check_names, check_new_job
from store.errors import InvalidValue
from store.names import PRIORITIES
from vocabulary.job_limits import NO_LIMITS, RANGES, JobLimits, trouble_with, with_limits
from vocabulary.names import jobtype_of, tenant_of
from vocabulary.new_job import NewJob as WantedJob

_OPTIONS: Final = ("delay_s", "priority", "domain", "key", "unique", "child", "sibling", *RANGES)
_NAMES: Final = ("domain", "key", "unique")
_PIECE_LINES: Final = 1000
_PIECE_BYTES: Final = 8 << 20
_T = TypeVar("_T")
PROBE: Final = NewJob("0", "a-b", b"", 0, 0)
"""A job with which options are checked before there is one."""


class Wish(NamedTuple):
    """A new job, checked. parent and unique are empty for most."""

    jobtype: str
    payload: bytes
    options: JobOptions = PLAIN
    unique: str = ""
    parent: str = ""
    keeps: frozenset[str] = frozenset()
    """What a live job with the same unique name keeps."""
    note: str = ""
    """About the job whose result it gets. It is beside the options, which many wishes share."""


def wishes_of(job: Job, wanted: Sequence[WantedJob], now_ms: int) -> list[Wish]:
    """The new jobs of a run; their tenant is that of the job. Raises InvalidInput."""
    tenant = tenant_of(job.jobtype)
    wishes = [
        _read(job, jobtype_of(tenant, one.type), one, now_ms)
        if one.options or one.links
        else Wish(jobtype_of(tenant, one.type), one.payload)
        for one in wanted
    ]
    named = [it for it in wishes if it.unique]
    _check(check_names, [PROBE._replace(jobtype=it.jobtype, unique=it.unique, parent=it.parent) for it in named])
    return wishes


def asked_for(job: Job, release: Release, wanted: Sequence[WantedJob]) -> Sequence[WantedJob]:
    """What counts of what a run asked for. Of a numbered job only the run that completes it does: each index of a
    consumer makes its jobs once, however often it is tried."""
    has_completed = isinstance(release, Archive | Discard | Finish) and release.outcome.code is Code.OK
    return wanted if job.seq is None or job.repeat or has_completed else ()


def go_into_the_store(job: Job, wishes: Sequence[Wish]) -> bool:
    """Whether the jobs are made in the write that ends the run: those of a numbered job always are."""
    return bool(wishes) and (
        job.seq is not None or any(wish.unique or wish.parent or not fit_journal(wish.options) for wish in wishes)
    )


def creations_of(wishes: Sequence[Wish], ids: Sequence[str], now_ms: int) -> list[Creation]:
    return [
        Creation(
            new_job(job_id, wish.jobtype, wish.payload, wish.options, now_ms, wish.note)._replace(
                unique=wish.unique, parent=wish.parent
            ),
            wish.keeps,
        )
        for wish, job_id in zip(wishes, ids, strict=True)
    ]


class JournalPiece(NamedTuple):
    """Lines of one write. notes: one for each, or none."""

    jobtype: str
    lines: list[bytes]
    options: JobOptions
    notes: list[str]


def journal_pieces(wishes: Sequence[Wish]) -> Iterator[JournalPiece]:
    """Lines that share a type and options, in pieces that fit one write."""
    groups: defaultdict[tuple[str, JobOptions, bool], list[Wish]] = defaultdict(list)
    for wish in wishes:
        groups[wish.jobtype, wish.options, bool(wish.note)].append(wish)
    for (jobtype, options, has_notes), alike in groups.items():
        piece = JournalPiece(jobtype, [], options, [])
        size_bytes = 0
        for wish in alike:
            if piece.lines and (len(piece.lines) == _PIECE_LINES or size_bytes + len(wish.payload) > _PIECE_BYTES):
                yield piece
                piece, size_bytes = JournalPiece(jobtype, [], options, []), 0
            piece.lines.append(wish.payload)
            size_bytes += len(wish.payload)
            if has_notes:
                piece.notes.append(wish.note)
        yield piece


def _read(job: Job, jobtype: str, wanted: WantedJob, now_ms: int) -> Wish:
    if wanted.links > MOST_LINKS:
        raise InvalidInput(
            f"results were passed on {MOST_LINKS} times in a row, and this one was not passed on to {wanted.type}:"
            " do the types lead back to each other by then or on_failure?"
        )
    said = _said(wanted) if wanted.options else {}
    parent = ""
    if _flag(said, "child"):
        parent = job.id
    if _flag(said, "sibling"):
        if parent:
            raise _wrong("sibling", "cannot be said together with child")
        if not job.parent:
            raise _wrong("sibling", "is for the child of another job, and this job has no parent")
        parent = job.parent
    delay_s = _number(said, "delay_s")
    options = JobOptions(
        None if delay_s is None else now_ms + round(delay_s * 1000),
        _priority(said),
        said.get("domain", ""),
        with_limits(options_of(wanted.links), _limits(said)),
        key=said.get("key", ""),
    )
    unique = said.get("unique", "")
    probe = PROBE._replace(dt_ms=options.dt_ms or 0, domain=options.domain, key=options.key)
    _check(check_new_job, probe._replace(unique=unique, parent=parent))
    keeps = frozenset({"repeat"} if "priority" in said else {"repeat", "priority"})
    note = wanted.follows.note if wanted.follows else ""
    return Wish(jobtype, wanted.payload, options, unique, parent, keeps if unique else frozenset(), note)


def _check(check: Callable[[_T], None], what: _T) -> None:
    """What the store would say of it, as the word on an option: there it might as well be about the end of the run."""
    try:
        check(what)
    except InvalidValue as error:
        raise InvalidInput(f"an option of a new job is refused: {error}") from None


def _said(wanted: WantedJob) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            wanted.options, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=len(_OPTIONS)
        )
    except ValueError as error:
        raise InvalidInput(f"the options of a new job {wanted.type} cannot be read: {error}") from None
    said = dict(pairs)
    if len(said) < len(pairs):
        raise InvalidInput(f"an option of a new job {wanted.type} is said twice")
    for name in said:
        if name not in _OPTIONS:
            raise _wrong(name[:40], f"is not an option of a new job: use {', '.join(_OPTIONS)}")
    for name in _NAMES:
        if said.get(name) == "":  # of a variable that is not set, mostly
            raise _wrong(name, "is empty: leave it out if the job has none")
    return said


def _flag(said: dict[str, str], name: str) -> bool:
    value = said.get(name, "0")
    if value not in {"0", "1", "true", "false"}:
        raise _wrong(name, f"must be 1 or 0, not {value!r:.40}")
    return value in {"1", "true"}


def _number(said: dict[str, str], name: str) -> float | None:
    if name not in said:
        return None
    try:
        value = float(said[name])
    except ValueError:
        value = math.nan
    if not 0 <= value <= MAX_DELAY_S:
        raise _wrong(name, f"must be a number of seconds from 0 to {MAX_DELAY_S}, not {said[name]!r:.40}")
    return value


def _priority(said: dict[str, str]) -> int:
    value = said.get("priority", str(DEFAULT_PRIORITY))
    if value not in {str(priority) for priority in PRIORITIES}:
        raise _wrong("priority", f"must be 0, 500 or 1000, not {value!r:.40}")
    return int(value)


def _limits(said: dict[str, str]) -> JobLimits:
    values: dict[str, int] = {}
    for name in RANGES if not said.keys().isdisjoint(RANGES) else ():
        if name in said:
            value = _whole(said[name])
            if trouble := trouble_with(name, value):
                raise _wrong(name, trouble)
            values[name] = int(value)
    return JobLimits(**values) if values else NO_LIMITS


def _whole(text: str) -> int | str:
    """As text if it is no number, or has more digits than any that is allowed."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def _wrong(name: str, what: str) -> InvalidInput:
    return InvalidInput(f"{name} of a new job {what}", detail={"field": name})
