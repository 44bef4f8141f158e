"""Inserting in bulk what has ended already: rows as they will stay, in columns.

What add, claim and release would do for them one after the other. Only for small jobs that ended for good.
"""

from collections.abc import Sequence
from operator import sub
from typing import Any, Final

from store.sqlite.file.buckets import CODE_NUMBER
from store.sqlite.file.bulk import Bulk, by_key
from store.sqlite.file.schema import State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.add import places_of, those_added
from store.values.jobs import Archive, NewJob

_EACH: Final = ("id", "type", "lane", "due", "created", "data", "started", "duration", "result")
_WORDS: Final = ("fingerprint", "message", "log")


def _statement(columns: Sequence[str]) -> Bulk:
    """What jobs of one handler that end alike have in common is bound once for all of them."""
    names = [*columns, "data_bytes", "result_bytes", "log_bytes", "claimed"]
    values = [f"v.column{number}" for number in range(1, len(columns) + 1)]
    of = dict(zip(columns, values, strict=True))
    sizes = [f"ifnull(octet_length({of[name]}), 0)" if name in of else "0" for name in ("data", "result", "log")]
    names += ["state", "token", "attempts", "code", "exitcode", "done", "version", "isolation"]
    selected = ", ".join([*values, *sizes, of["started"], f"{State.ARCHIVED}, 1, 1, ?1, ?2, ?3, ?4, ?5"])
    return Bulk(
        f"INSERT INTO jobs ({', '.join(names)}) SELECT {selected} FROM (",
        len(columns),
        ") AS v WHERE true ON CONFLICT (id) DO NOTHING",
    )


INSERT: Final = _statement(_EACH)
_INSERT_WITH_WORDS: Final = _statement((*_EACH, *_WORDS))


def insert_archived(tx: Tx, ended: Sequence[tuple[NewJob, Archive]], now_ms: int) -> list[Archive]:
    """Returns the ends of jobs that were in the store already: nothing of these has changed."""
    known: list[Archive] = []
    keys: list[Sequence[Any]] = [
        [release.outcome.code for _, release in ended],
        [release.outcome.exitcode for _, release in ended],
        [release.outcome.handler_version for _, release in ended],
        [release.outcome.isolation for _, release in ended],
    ]
    for (code, exitcode, version, isolation), (mine,) in by_key(keys, [ended]):
        shared = (CODE_NUMBER[code], exitcode, now_ms, version, isolation or None)
        bulk, columns = _columns(tx, mine)
        changes = tx.conn.total_changes()  # after the columns, which may make a lane
        bulk.run(tx.conn, columns, shared)
        added = tx.conn.total_changes() - changes
        if added < len(mine):
            new = {job.id for job in those_added(tx, added, [job for job, _ in mine])} if added else set()
            known += [release for job, release in mine if job.id not in new]
            mine = [(job, release) for job, release in mine if job.id in new]  # noqa: PLW2901 - what is to be counted
        if mine:
            _count(tx, mine, now_ms)
    return known


def _columns(tx: Tx, ended: Sequence[tuple[NewJob, Archive]]) -> tuple[Bulk, list[Sequence[Any]]]:
    jobs, releases = zip(*ended, strict=True)
    ids, jobtypes, payloads, due, created, priorities, domains, *_ = zip(*jobs, strict=True)
    outcomes = [release.outcome for release in releases]
    _, _, started, durations, results, logs, _, _, fingerprints, messages = zip(*outcomes, strict=True)
    types, lanes = places_of(tx, jobtypes, domains, priorities)
    columns: list[Sequence[Any]] = [ids, types, lanes, due, created, payloads, started, durations, results]
    if not (any(fingerprints) or any(messages) or any(logs)):
        return INSERT, columns
    return _INSERT_WITH_WORDS, columns + [
        [word or None for word in column] for column in (fingerprints, messages, logs)
    ]


def _count(tx: Tx, ended: Sequence[tuple[NewJob, Archive]], now_ms: int) -> None:
    """Ensures: all counts are as add, claim and release would leave them."""
    jobs, releases = zip(*ended, strict=True)
    _, jobtypes, payloads, due, created, priorities, domains, *_ = zip(*jobs, strict=True)
    outcomes = [release.outcome for release in releases]
    codes, _, started, durations, results, logs, *_ = zip(*outcomes, strict=True)
    types, lanes = places_of(tx, jobtypes, domains, priorities)
    sizes = [
        len(data) + len(result or b"") + len(log) for data, result, log in zip(payloads, results, logs, strict=True)
    ]
    for (number, lane, code), (its_sizes, its_durations, *times) in by_key(
        [types, lanes, codes], [sizes, durations, started, list(map(max, due, created))]
    ):
        tx.tally.lane(lane, stored=len(its_sizes))
        tx.tally.size(number, sum(its_sizes))
        tx.tally.ended(number, code, len(its_sizes), now_ms)
        waits_us = [1000 * wait_ms for wait_ms in map(sub, *times)]
        tx.tally.ran(number, its_durations, waits_us, now_ms)
    for number, release in zip(types, releases, strict=True):
        if release.outcome.fingerprint:
            tx.tally.failed(number, release.outcome, release.id, now_ms)
