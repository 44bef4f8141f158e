"""What ended of all types of a tenant together, by the same spans of time as the buckets.

A chart of a tenant's last hour then reads sixty rows, however many types it has and whoever else is in the store.
Ensures: a total changes in the transaction that changes the buckets that it sums, and goes with them. No histograms.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import apsw

from store.sqlite.file.bulk import Bulk
from vocabulary.states import COUNTED_CODES

COUNTS: Final = (*[code.value for code in COUNTED_CODES], "runner")

_ADD: Final = Bulk(
    f"INSERT INTO totals (tenant, width, start, {', '.join(COUNTS)})",
    3 + len(COUNTS),
    f"ON CONFLICT DO UPDATE SET {', '.join(f'{name} = {name} + excluded.{name}' for name in COUNTS)}",
)
_NOTHING: Final = (0,) * len(COUNTS)
_EXPIRE: Final = (
    "DELETE FROM totals WHERE (tenant, width, start) IN"
    " (SELECT tenant, width, start FROM totals WHERE width = ? AND start < ? LIMIT ?)"
)

Key = tuple[str, int, int]
"""Tenant, width and start: the primary key."""


def add_totals(conn: apsw.Connection, ended: Mapping[Key, Sequence[int]]) -> None:
    """ended: what comes on top, in the order of COUNTS."""
    rows = [(*key, *counts) for key, counts in ended.items()]
    if rows:
        _ADD.run(conn, list(zip(*rows, strict=True)), filling=(*rows[0][:3], *_NOTHING))


def expire_totals(conn: apsw.Connection, width_ms: int, before_ms: int, limit: int) -> None:
    """Some of those that began before; to be called together with the end of the buckets that they sum."""
    conn.execute(_EXPIRE, (width_ms, before_ms, limit))
