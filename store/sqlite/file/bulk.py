"""Many jobs in one statement, and in columns.

A statement per job costs more than what it does to the database: reset, bind, step, and twice the interpreter's
lock, over a microsecond in all. So the values of many rows are bound to one statement with a long VALUES clause, and
row numbers go in as one array. On the way there a value is moved in columns, one list for all jobs, because a loop
that touches every job once costs as much as an index.
"""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import apsw

from vocabulary.names import is_job_id

LARGEST_PIECE: Final = 512
"""Rows of one statement. Longer ones gain nothing more, and would not fit the statement cache."""
_SIZES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, LARGEST_PIECE)


class Bulk:
    """A statement in which one `VALUES` clause of any number of rows stands between two texts.

    `before` may use numbered parameters ?1, ?2, …: they are bound to `shared`, the same for all rows. A batch is filled
    up to the next of a few sizes with its last row, so that batches of every size share some prepared statements and
    nearly every one is a single statement: it must not matter to the statement if that row comes again.
    """

    def __init__(self, before: str, width: int, after: str) -> None:
        row = f"({','.join('?' * width)})"
        self.width = width
        self._sql = {size: f"{before} VALUES {','.join([row] * size)} {after}" for size in _SIZES}

    def run(
        self,
        conn: apsw.Connection,
        columns: Sequence[Sequence[Any]],
        shared: Sequence[Any] = (),
        filling: Sequence[Any] = (),
    ) -> None:
        """columns: as many as a row has, all of the same length, which is not 0. filling: a row to fill up with in
        place of the last one."""
        width = self.width
        values: list[Any] = [None] * (width * len(columns[0]))
        for place, column in enumerate(columns):
            values[place::width] = column
        for start in range(0, len(values), width * LARGEST_PIECE):
            piece = values[start : start + width * LARGEST_PIECE]
            rows = len(piece) // width
            size = _SIZES[bisect_left(_SIZES, rows)]
            conn.execute(self._sql[size], [*shared, *piece, *[*(filling or piece[-width:])] * (size - rows)])


def arrays(*expressions: str) -> str:
    """For a SELECT: each of them of all rows in one JSON array, so that one step brings whole columns. Who fetches row
    by row asks for the interpreter's lock at every row, and each time may find the event loop busy."""
    return ", ".join([f"json_group_array({each})" for each in expressions])


def numbers(values: Iterable[int]) -> "apsw.CArrayBinding":
    """Integers to be bound as the argument of `carray`; at least one."""
    return apsw.carray(array("q", values))


def job_ids(values: Sequence[str]) -> "apsw.CArrayBinding":
    """Ids to be bound as the argument of `carray`; at least one. Ensures: what cannot be an id finds nothing."""
    try:
        return apsw.carray(tuple(values))
    except ValueError:  # a NUL or a lone surrogate, which an array of C strings cannot hold
        return apsw.carray(tuple([value if is_job_id(value) else "" for value in values]))


def alike(columns: Iterable[Sequence[Any]]) -> bool:
    """Whether all jobs have the same in each of these columns: the usual case, and cheaply found out."""
    for column in columns:  # noqa: SIM110 (a generator would cost more than the counts)
        if column.count(column[0]) != len(column):
            return False
    return True


def by_key(
    keys: Sequence[Sequence[Any]], columns: Sequence[Sequence[Any]]
) -> Iterator[tuple[tuple[Any, ...], Sequence[Sequence[Any]]]]:
    """The columns, split by what stands in the columns `keys`, each part with its key. One key for all jobs is the
    usual case, and costs next to nothing."""
    if alike(keys):
        yield tuple([column[0] for column in keys]), columns
        return
    rows: defaultdict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for key, row in zip(zip(*keys, strict=True), zip(*columns, strict=True), strict=True):
        rows[key].append(row)
    for key, mine in rows.items():
        yield key, list(zip(*mine, strict=True))
