"""Buckets of chosen types, and sums over buckets: what pages show."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from store.checks import check_buckets, check_type_buckets
from store.mongo import schema
from store.mongo.core import Core, repeatable
from store.mongo.driver import Document, aggregate
from store.values.histogram import Histogram
from store.values.jobs import Code
from store.values.scoreboard import Bucket, EndedSum, Span

_COUNTS: Final = ("ok", "failed", "retry", "error", "abandoned", "cancelled", "runner_us")


class Activities(Core):
    @repeatable
    async def get_type_buckets(
        self, tenant: str, jobtypes: Sequence[str], *, width_ms: int, since_ms: int, until_ms: int
    ) -> list[Bucket]:
        chosen = check_type_buckets(tenant, jobtypes, width_ms, since_ms, until_ms)
        return [_bucket(row) for row in await self._of_types(chosen, width_ms, since_ms, until_ms, {"seen": 0})]

    @repeatable
    async def get_type_counts(
        self, tenant: str, jobtypes: Sequence[str], *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[str, dict[int, EndedSum]]:
        chosen = check_type_buckets(tenant, jobtypes, width_ms, since_ms, until_ms)
        found: dict[str, dict[int, EndedSum]] = {}
        for row in await self._of_types(chosen, width_ms, since_ms, until_ms, {"seen": 0, "duration": 0, "wait": 0}):
            found.setdefault(row["type"], {})[row["start"]] = _sum(row)
        return found

    async def _of_types(
        self, jobtypes: list[str], width_ms: int, since_ms: int, until_ms: int, hidden: Document
    ) -> list[Document]:
        which = {**_buckets(width_ms, since_ms, until_ms), "type": {"$in": jobtypes}}
        found = self.collections.counters.find(which, hidden)
        return await found.sort([("start", 1), ("type", 1)]).to_list(None)

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

    @repeatable
    async def count_by_type(self, tenant: str, codes: frozenset[Code], spans: Sequence[Span]) -> dict[str, int]:
        names = sorted(code.value for code in codes)
        counts = Counter[str]()
        for sign, width_ms, since_ms, until_ms in spans:
            for row in await self._sums("$type", tenant, width_ms, since_ms, until_ms, names):
                counts[row["_id"]] += sign * sum(row[name] for name in names)
        return {jobtype: count for jobtype, count in counts.items() if count}

    async def _sums(
        self,
        by: str,
        tenant: str | None,
        width_ms: int,
        since_ms: int,
        until_ms: int,
        names: Sequence[str] = _COUNTS,
    ) -> list[Document]:
        check_buckets(tenant, width_ms, since_ms, until_ms)
        which = _buckets(width_ms, since_ms, until_ms)
        if tenant is not None:
            which["type"] = schema.types_of(tenant)
        sums: dict[str, Any] = {name: {"$sum": f"${name}"} for name in names}
        return await aggregate(self.collections.counters, [{"$match": which}, {"$group": {"_id": by, **sums}}])


def _buckets(width_ms: int, since_ms: int, until_ms: int) -> Document:
    return {"k": "b", "width": width_ms, "start": {"$gte": since_ms, "$lt": until_ms}}


def _sum(row: Document) -> EndedSum:
    return EndedSum._make(row.get(name, 0) for name in _COUNTS)


def _bucket(row: Document) -> Bucket:
    cells = (_histogram(row.get("duration", {})), _histogram(row.get("wait", {})))
    return Bucket._make((row["type"], row["start"], row["width"], *_sum(row), *cells))


def _histogram(cells: dict[str, int]) -> Histogram:
    return Histogram({int(cell): count for cell, count in cells.items()})
