"""The ranges of indexes from which a listing is merged: which index is walked for which filter, and in which order.

Ensures: each query walks one index in the order of the listing, so that a page costs a seek per range and its own rows.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import apsw

from store.names import PRIORITIES
from store.sqlite.file.buckets import CODE_NUMBER
from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import LIVE, PAUSED, QUEUED, State
from store.values.jobs import JobFilter
from vocabulary.states import FINAL_CODES, Code, JobState

QUEUED_STATES: Final = frozenset({JobState.WAITING, JobState.DEFERRED})
LEASED_STATES: Final = frozenset({JobState.RUNNING, JobState.LAPSED})


class Index(NamedTuple):
    """An index in the order of a listing: the columns of a place in it, and a query that has {key} and {count} open.

    stop, time and tie are where the listing ends and what it continues after; name is what is looked for, if anything
    is.
    """

    time: str
    tie: str
    direction: str
    query: str

    @property
    def rows(self) -> str:
        """The next places of one range."""
        return f"SELECT {self.time}, {self.tie}, n {self.query.format(key=':key', count=':count')}"

    @property
    def heads(self) -> str:
        """The next place of each of many ranges, the first :count of them; ranges without any have none at the end."""
        head = self.query.format(key="k.value", count=1)
        return (
            f"SELECT (SELECT {self.time} {head}) AS time, (SELECT {self.tie} {head}) AS tie, k.value"
            f" FROM carray(:keys) k ORDER BY 1 {self.direction} NULLS LAST, 2 {self.direction} LIMIT :count"
        )


class Ranges(NamedTuple):
    """Parts of an index that differ in their key. part: what else they have in common, a code or a priority."""

    source: Index
    keys: list[int]
    part: int = 0


def _archived(index: str, place: str) -> Index:
    return Index(
        "done",
        "n",
        "DESC",
        f"FROM jobs INDEXED BY {index} WHERE state = {State.ARCHIVED} AND {place} AND code = :part"
        " AND done >= :stop AND (done, n) < (:time, :tie) ORDER BY done DESC, n DESC LIMIT {count}",
    )


def _queued(index: str, place: str) -> Index:
    return Index(
        "due",
        "id",
        "ASC",
        f"FROM jobs INDEXED BY {index} WHERE state {QUEUED} AND {place} AND due < :stop AND (due, id) > (:time, :tie)"
        " ORDER BY due, id LIMIT {count}",
    )


def _paused(index: str, place: str) -> Index:
    return Index(
        "due",
        "n",
        "ASC",
        f"FROM jobs INDEXED BY {index} WHERE state {PAUSED} AND {place} AND due < :stop AND (due, n) > (:time, :tie)"
        " ORDER BY due, n LIMIT {count}",
    )


class _Indexes(NamedTuple):
    archived: Index
    queued: Index
    paused: Index


_NAMED: Final = "type = {key} AND uniq = :name"
_FAILED: Final = "type = {key} AND fingerprint = :name"
_ANY: Final = _Indexes(
    _archived("jobs_archived", "type = {key}"),
    _queued("jobs_queued", "lane = {key}"),
    _paused("jobs_paused", "type = {key}"),
)
_BY_NAME: Final = _Indexes(
    _archived("jobs_named", _NAMED),
    _queued("jobs_unique", f"state {LIVE} AND {_NAMED}"),
    _paused("jobs_unique", f"state {LIVE} AND {_NAMED}"),
)
"""Of live jobs at most one of a type has a name, so nothing has to be in order."""
_BY_KEY: Final = _Indexes(
    _archived("jobs_keyed", "turn = {key}"),
    _queued("jobs_of_turn", "turn = {key} AND prio = :part"),
    _paused("jobs_keyed_paused", "turn = {key}"),
)
_BY_FAILURE: Final = _Indexes(
    _archived("jobs_failed", _FAILED),
    _queued("jobs_failed_queued", _FAILED),
    _paused("jobs_failed_paused", _FAILED),
)

_CHOSEN: Final = "t.tenant = :tenant AND (:all OR t.jobtype IN (SELECT value FROM carray(:names)))"
_LANES: Final = f"SELECT l.lane FROM lanes l JOIN types t ON t.type = l.type WHERE {_CHOSEN}"
ENDED: Final = "t.ok, t.failed, t.abandoned, t.cancelled"
_TYPES: Final = f"SELECT t.type, {ENDED} FROM types t WHERE {_CHOSEN}"
_TURNS: Final = (
    f"SELECT u.turn, {ENDED} FROM types t CROSS JOIN turns u ON u.type = t.type AND u.key = :name WHERE {_CHOSEN}"
)
_ENDED_CODES: Final = (Code.OK, Code.FAILED, Code.ABANDONED, Code.CANCELLED)


def ranges_of(conn: apsw.Connection, tenant: str, where: JobFilter) -> list[Ranges]:
    """Of a state that has them: leased jobs are read otherwise."""
    indexes, values = _indexes_of(where), chosen(tenant, where)
    if indexes is _ANY and where.state in QUEUED_STATES:
        return [Ranges(_ANY.queued, [lane for (lane,) in conn.execute(_LANES, values)])]
    rows = fetch(conn, _TYPES if where.key is None else _TURNS, values)
    keys = [key for key, *_ in rows]
    if where.state in QUEUED_STATES:
        parts = (0,) if where.key is None else PRIORITIES
        return [Ranges(indexes.queued, keys, part) for part in parts]
    if where.state == JobState.PAUSED:
        return [Ranges(indexes.paused, keys)]
    codes = FINAL_CODES if where.codes is None else where.codes & FINAL_CODES
    by_code: dict[int, list[int]] = {}
    for key, code in archived_pairs(rows, codes):
        by_code.setdefault(code, []).append(key)
    return [Ranges(indexes.archived, keys, code) for code, keys in by_code.items()]


def chosen(tenant: str, where: JobFilter) -> dict[str, Any]:
    """What the queries call tenant, all, names and name."""
    name = where.unique or where.key or where.failure
    return {"tenant": tenant, "all": where.names is None, "names": apsw.carray(where.names or ("",)), "name": name}


def leased(where: JobFilter) -> str:
    """Running jobs have one index for all tenants: there are never more of them than daemons have places for."""
    named = "j.uniq = :name" if where.unique else "j.fingerprint = :name" if where.failure else "TRUE"
    if where.key:
        named = "j.turn IN (SELECT turn FROM turns WHERE type = j.type AND key = :name)"
    return (
        "SELECT lease, j.n, j.n FROM jobs j INDEXED BY jobs_leased JOIN types t ON t.type = j.type"
        f" WHERE j.state = {State.RUNNING} AND {_CHOSEN} AND {named}"
        " AND lease < :stop AND (lease, j.n) > (:time, :tie) ORDER BY lease, j.n LIMIT :count"
    )


def _indexes_of(where: JobFilter) -> _Indexes:
    if where.unique is not None:
        return _BY_NAME
    if where.key is not None:
        return _BY_KEY
    return _ANY if where.failure is None else _BY_FAILURE


def archived_pairs(types: list[tuple[Any, ...]], codes: frozenset[Code]) -> Iterator[tuple[int, int]]:
    """The (type, code) that can have archived jobs, because that type has counted that code, from rows of
    (type, ENDED). A tenant with a thousand types is spared most of four thousand seeks."""
    for number, *counts in types:
        for code, count in zip(_ENDED_CODES, counts, strict=True):
            if count and code in codes:
                yield number, CODE_NUMBER[code]
