"""Many jobs in one statement, and in columns.

A statement per job costs more than what it does to the database: reset, bind, step, and twice the interpreter's
lock, over a microsecond in all. So the values of many rows are bound to one statement with a long VALUES clause, and
row numbers go in as one array. On the way there a value is moved in columns, one list for all jobs, because a loop
that touches every job once costs as much as an index.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import apsw

from store.names import is_job_id

LARGEST_PIECE: Final = 256
"""Rows of one statement. Longer ones gain nothing more, and would not fit the statement cache."""


class Bulk:
    """A statement in which one `VALUES` clause of any number of rows stands between two texts.

    `before` may use numbered parameters ?1, ?2, …: they are bound to `shared`, the same for all rows. Rows are cut
    into pieces of a power of two, so that batches of every size share nine prepared statements.
    """

    def __init__(self, before: str, width: int, after: str) -> None:
        row = f"({', '.join('?' * width)})"
        sizes = [1 << power for power in range(LARGEST_PIECE.bit_length())]
        self.width = width
        self._pieces = [(size, f"{before} VALUES {', '.join([row] * size)} {after}") for size in reversed(sizes)]

    def run(self, conn: apsw.Connection, columns: Sequence[Sequence[Any]], shared: Sequence[Any] = ()) -> None:
        """columns: as many as a row has, all of the same length."""
        width = self.width
        values: list[Any] = [None] * (width * len(columns[0]))
        for place, column in enumerate(columns):
            values[place::width] = column
        start = 0
        for size, sql in self._pieces:
            while len(values) - start >= size * width:
                piece = values[start : start + size * width]
                conn.execute(sql, [*shared, *piece] if shared else piece)
                start += len(piece)


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
    return all(column.count(column[0]) == len(column) for column in columns)


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
