"""Archiving in bulk: deliveries that end for good and concern nothing else, as most do.

What endings.py does for one job after the other is done here for columns of jobs. Only for jobs without relatives that
never ended before, and for results that fit the row: the caller looks.
"""

from collections.abc import Sequence
from operator import sub
from typing import Any, Final

from store.sqlite.file.buckets import CODE_NUMBER
from store.sqlite.file.bulk import Bulk, by_key
from store.sqlite.file.schema import State
from store.sqlite.file.writer import Tx
from store.values.jobs import Archive

_ALIKE: Final = f"state = {State.ARCHIVED}, code = ?1, exitcode = ?2, done = ?3, version = ?4, isolation = ?5"
_EACH: Final = (
    "started = v.column2, duration = v.column3, result = v.column4, result_bytes = ifnull(octet_length(v.column4), 0)"
)
_WORDS: Final = (
    "fingerprint = v.column5, message = v.column6, log = v.column7, log_bytes = ifnull(octet_length(v.column7), 0)"
)
_BY_NUMBER: Final = ") AS v WHERE jobs.n = v.column1"
ARCHIVE: Final = Bulk(f"UPDATE jobs SET {_ALIKE}, {_EACH} FROM (", 4, _BY_NUMBER)
_ARCHIVE_WITH_WORDS: Final = Bulk(f"UPDATE jobs SET {_ALIKE}, {_EACH}, {_WORDS} FROM (", 7, _BY_NUMBER)
"""What jobs of one handler that end alike have in common is bound once for all of them."""


def archive_in_bulk(tx: Tx, running: Sequence[Sequence[int]], archives: Sequence[Archive], now_ms: int) -> None:
    """running: the last columns of release.HELD, of at least one job. Ensures: they and all counts are as `end_jobs`
    would leave them, but for `settled`, which is asked only of a job with a parent."""
    row_numbers, types, lanes, since = running
    ids, _, outcomes = zip(*archives, strict=True)
    codes, exitcodes, started, durations, results, logs, versions, isolations, fingerprints, messages = zip(
        *outcomes, strict=True
    )
    bulk = ARCHIVE
    columns: list[Sequence[Any]] = [row_numbers, started, durations, results]
    if any(fingerprints) or any(messages) or any(logs):
        bulk = _ARCHIVE_WITH_WORDS
        columns += [[word or None for word in column] for column in (fingerprints, messages, logs)]
    for (code, exitcode, version, isolation), mine in by_key([codes, exitcodes, versions, isolations], columns):
        bulk.run(tx.conn, mine, (CODE_NUMBER[code], exitcode, now_ms, version, isolation or None))
    counted = [results, logs, durations, started, since]
    for (number, lane, code), (its_results, its_logs, its_durations, *times) in by_key([types, lanes, codes], counted):
        tx.tally.lane(lane, running=-len(its_results))
        tx.tally.size(number, sum(map(len, filter(None, its_results))) + sum(map(len, filter(None, its_logs))))
        tx.tally.ended(number, code, len(its_results), now_ms)
        waits_us = [1000 * wait_ms for wait_ms in map(sub, *times)]
        tx.tally.ran(number, its_durations, waits_us, now_ms)
    if any(fingerprints):
        for number, job_id, outcome in zip(types, ids, outcomes, strict=True):
            if outcome.fingerprint:
                tx.tally.failed(number, outcome, job_id, now_ms)
