"""Buckets of chosen types, and sums over buckets: what pages show."""

from collections.abc import Sequence
from typing import Any, Final

from store.checks import check_buckets
from store.mongo import schema
from store.mongo.core import Core, repeatable
from store.mongo.driver import Document, aggregate
from store.names import check_batch, check_jobtype, check_tenant
from store.values.histogram import Histogram
from store.values.scoreboard import Bucket, EndedSum

_COUNTS: Final = ("ok", "failed", "retry", "error", "abandoned", "cancelled", "runner_us")


class Activities(Core):
    @repeatable
    async def get_type_buckets(
        self,
        tenant: str,
        jobtypes: Sequence[str],
        *,
        width_ms: int,
        since_ms: int,
        until_ms: int,
        histograms: bool = True,
    ) -> list[Bucket]:
        check_batch("jobtypes", len(jobtypes))
        check_buckets(width_ms, since_ms, until_ms)
        which = _buckets(width_ms, since_ms, until_ms)
        which["type"] = {"$in": [check_jobtype(tenant, jobtype) for jobtype in jobtypes]}
        hidden = {"seen": 0} if histograms else {"seen": 0, "duration": 0, "wait": 0}
        rows = await self.collections.counters.find(which, hidden).sort([("start", 1), ("type", 1)]).to_list(None)
        return [_bucket(row) for row in rows]

    @repeatable
    async def sum_by_start(
        self, tenant: str | None, *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[int, EndedSum]:
        rows = await self._sums("$start", tenant, width_ms, since_ms, until_ms)
        return {row["_id"]: _sum(row) for row in rows}

    @repeatable
    async def sum_by_type(
        self, tenant: str | None, *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[str, EndedSum]:
        rows = await self._sums("$type", tenant, width_ms, since_ms, until_ms)
        return {row["_id"]: _sum(row) for row in rows}

    async def _sums(self, by: str, tenant: str | None, width_ms: int, since_ms: int, until_ms: int) -> list[Document]:
        check_buckets(width_ms, since_ms, until_ms)
        which = _buckets(width_ms, since_ms, until_ms)
        if tenant is not None:
            which["type"] = schema.types_of(check_tenant(tenant))
        sums: dict[str, Any] = {name: {"$sum": f"${name}"} for name in _COUNTS}
        return await aggregate(self.collections.counters, [{"$match": which}, {"$group": {"_id": by, **sums}}])


def _buckets(width_ms: int, since_ms: int, until_ms: int) -> Document:
    return {"k": "b", "width": width_ms, "start": {"$gte": since_ms, "$lt": until_ms}}


def _sum(row: Document) -> EndedSum:
    return EndedSum._make(row[name] for name in _COUNTS)


def _bucket(row: Document) -> Bucket:
    counts = (row.get(name, 0) for name in _COUNTS)
    cells = (_histogram(row.get("duration", {})), _histogram(row.get("wait", {})))
    return Bucket._make((row["type"], row["start"], row["width"], *counts, *cells))


def _histogram(cells: dict[str, int]) -> Histogram:
    return Histogram({int(cell): count for cell, count in cells.items()})
