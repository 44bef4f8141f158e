"""Inserting in bulk what has ended already: rows as they will stay, in columns.

What add, claim and release would do for them one after the other. Only for small jobs that ended for good.
"""

from collections.abc import Sequence
from operator import sub
from typing import Any, Final, NamedTuple

from store.sqlite.file.buckets import CODE_NUMBER
from store.sqlite.file.bulk import Bulk, by_key
from store.sqlite.file.schema import INLINE_BYTES, State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.add import places_of, those_added
from store.values.jobs import Archive, NewJob, Outcome, Release
from vocabulary.columns import fields

_EACH: Final = ("id", "type", "lane", "due", "created", "data", "started", "duration", "result", "done")
_WORDS: Final = ("fingerprint", "message", "log")
_TOKEN, _OUTCOME, _RESULT = fields(Archive, "token"), fields(Archive, "outcome"), fields(Outcome, "result")
_OPTIONS, _DATA = fields(NewJob, "options"), fields(NewJob, "data")


def _statement(columns: Sequence[str]) -> Bulk:
    """What jobs of one handler that end alike have in common is bound once for all of them."""
    names = [*columns, "data_bytes", "result_bytes", "log_bytes", "claimed"]
    values = [f"v.column{number}" for number in range(1, len(columns) + 1)]
    of = dict(zip(columns, values, strict=True))
    sizes = [f"ifnull(octet_length({of[name]}), 0)" if name in of else "0" for name in ("data", "result", "log")]
    names += ["state", "token", "attempts", "code", "exitcode", "version", "isolation"]
    selected = ", ".join([*values, *sizes, of["started"], f"{State.ARCHIVED}, 1, 1, ?1, ?2, ?3, ?4"])
    return Bulk(
        f"INSERT INTO jobs ({', '.join(names)}) SELECT {selected} FROM (",
        len(columns),
        ") AS v WHERE true ON CONFLICT (id) DO NOTHING",
    )


INSERT: Final = _statement(_EACH)
_INSERT_WITH_WORDS: Final = _statement((*_EACH, *_WORDS))


class _Ended(NamedTuple):
    """Jobs with their ends, in columns."""

    jobs: Sequence[NewJob]
    releases: Sequence[Archive]
    ids: Sequence[str]
    types: Sequence[int]
    lanes: Sequence[int]
    due: Sequence[int]
    created: Sequence[int]
    payloads: Sequence[bytes]
    started: Sequence[int]
    durations: Sequence[int]
    results: Sequence[bytes | None]
    done: Sequence[int]
    logs: Sequence[bytes]
    fingerprints: Sequence[str]
    messages: Sequence[str]


def are_small(jobs: Sequence[NewJob], releases: Sequence[Release]) -> bool:
    """Whether all of these jobs, at least one, are small and ended for good with a small result."""
    return (
        set(map(type, releases)) == {Archive}
        and set(map(_TOKEN, releases)) == {1}
        and not any(map(_OPTIONS, jobs))
        and max(map(len, map(_DATA, jobs))) <= INLINE_BYTES
        and max(map(len, filter(None, map(_RESULT, map(_OUTCOME, releases)))), default=0) <= INLINE_BYTES
    )


def insert_archived(tx: Tx, jobs: Sequence[NewJob], releases: Sequence[Archive], done: Sequence[int]) -> list[Archive]:
    """For what `are_small` lets through. done: when each was recorded. Returns the ends of jobs that were in the store
    already: nothing of these has changed."""
    known: list[Archive] = []
    ids, jobtypes, payloads, due, created, priorities, domains, *_ = zip(*jobs, strict=True)
    codes, exitcodes, started, durations, results, logs, versions, isolations, fingerprints, messages = zip(
        *map(_OUTCOME, releases), strict=True
    )
    types, lanes = places_of(tx, jobtypes, domains, priorities)
    ended = _Ended(
        jobs, releases, ids, types, lanes, due, created, payloads,
        started, durations, results, done, logs, fingerprints, messages,
    )  # fmt: skip
    for (code, exitcode, version, isolation), columns in by_key([codes, exitcodes, versions, isolations], ended):
        mine = _Ended._make(columns)
        changes = tx.conn.total_changes()
        _insert(tx, mine, (CODE_NUMBER[code], exitcode, version, isolation or None))
        added = tx.conn.total_changes() - changes
        if added < len(mine.jobs):
            new = {job.id for job in those_added(tx, added, mine.jobs)} if added else set()
            known += [release for release in mine.releases if release.id not in new]
            rows = [row for row in zip(*mine, strict=True) if row[0].id in new]
            if not rows:
                continue
            mine = _Ended._make(zip(*rows, strict=True))  # what is to be counted
        _count(tx, mine)
    return known


def _insert(tx: Tx, ended: _Ended, shared: Sequence[Any]) -> None:
    columns: list[Sequence[Any]] = [
        ended.ids, ended.types, ended.lanes, ended.due, ended.created, ended.payloads,
        ended.started, ended.durations, ended.results, ended.done,
    ]  # fmt: skip
    words = ended.fingerprints, ended.messages, ended.logs
    if not any(map(any, words)):
        INSERT.run(tx.conn, columns, shared)
    else:
        columns += [[word or None for word in column] for column in words]
        _INSERT_WITH_WORDS.run(tx.conn, columns, shared)


def _count(tx: Tx, ended: _Ended) -> None:
    """Ensures: all counts are as add, claim and release would leave them. All ended with the same code."""
    code = ended.releases[0].outcome.code
    sizes = list(map(len, ended.payloads))
    if any(ended.results) or any(ended.logs):
        left = zip(sizes, ended.results, ended.logs, strict=True)
        sizes = [size + len(result or b"") + len(log) for size, result, log in left]
    since = list(map(max, ended.due, ended.created))
    for (number, lane, now_ms), (its_sizes, its_durations, *times) in by_key(
        [ended.types, ended.lanes, ended.done], [sizes, ended.durations, ended.started, since]
    ):
        tx.tally.lane(lane, stored=len(its_sizes))
        tx.tally.size(number, sum(its_sizes))
        tx.tally.ended(number, code, len(its_sizes), now_ms)
        waits_us = [1000 * wait_ms for wait_ms in map(sub, *times)]
        tx.tally.ran(number, its_durations, waits_us, now_ms)
    failures = zip(ended.types, ended.releases, ended.done, strict=True) if any(ended.fingerprints) else ()
    for number, release, now_ms in failures:
        if release.outcome.fingerprint:
            tx.tally.failed(number, release.outcome, release.id, now_ms)
