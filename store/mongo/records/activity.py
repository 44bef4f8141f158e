"""Buckets of chosen types, and sums over buckets: what pages show."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from store.mongo.records.scoreboard import EVENTS, bucket_from
from store.mongo.server import schema
from store.mongo.server.core import Core, repeatable
from store.mongo.server.driver import Document, aggregate
from store.values.scoreboard import Bucket, EndedSum, Span
from vocabulary.states import Code

_COUNTS: Final = (*EVENTS, "runner_us")


class MongoActivity(Core):
    @repeatable
    async def get_type_buckets(
        self, tenant: str, jobtypes: Sequence[str], *, width_ms: int, since_ms: int, until_ms: int
    ) -> list[Bucket]:
        return [bucket_from(row) for row in await self._of_types(jobtypes, width_ms, since_ms, until_ms, {"seen": 0})]

    @repeatable
    async def get_type_counts(
        self, tenant: str, jobtypes: Sequence[str], *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[str, dict[int, EndedSum]]:
        found: dict[str, dict[int, EndedSum]] = {}
        for row in await self._of_types(jobtypes, width_ms, since_ms, until_ms, {"seen": 0, "duration": 0, "wait": 0}):
            found.setdefault(row["type"], {})[row["start"]] = _sum(row)
        return found

    async def _of_types(
        self, jobtypes: Sequence[str], width_ms: int, since_ms: int, until_ms: int, hidden: Document
    ) -> list[Document]:
        which = {**_buckets(width_ms, since_ms, until_ms), "type": {"$in": list(jobtypes)}}
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
        which = _buckets(width_ms, since_ms, until_ms)
        if tenant is not None:
            which["type"] = schema.types_of(tenant)
        sums: dict[str, Any] = {name: {"$sum": f"${name}"} for name in names}
        return await aggregate(self.collections.counters, [{"$match": which}, {"$group": {"_id": by, **sums}}])


def _buckets(width_ms: int, since_ms: int, until_ms: int) -> Document:
    return {"k": "b", "width": width_ms, "start": {"$gte": since_ms, "$lt": until_ms}}


def _sum(row: Document) -> EndedSum:
    return EndedSum._make(row.get(name, 0) for name in _COUNTS)
