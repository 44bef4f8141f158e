"""Upkeep in bounded steps, by any daemon: lapsed leases, jobs that came due, old jobs, traces of crashes."""

from collections.abc import Sequence

from store.checks import check_range, check_time
from store.mongo import schema
from store.mongo.blobs import kept_by
from store.mongo.core import once
from store.mongo.creating import Creating
from store.mongo.documents import outcome_bytes
from store.mongo.driver import Document
from store.mongo.endings import ABANDONED, NEEDED, archive_step
from store.mongo.ledger import LAPSE_MS
from store.mongo.tally import Effect
from store.names import check_tenant
from store.values.jobs import ExpireReport


class Upkeep(Creating):
    @once
    async def expire_locks(self, *, now_ms: int, limit: int = 1000) -> int:
        check_time("now_ms", now_ms)
        check_range("limit", limit, 1, 10_000)
        jobs = self.collections.jobs
        lapsed: Document = {"s": schema.RUNNING, "at": {"$lte": now_ms}}
        rows = await jobs.find(lapsed, {"_id": 1}, hint=schema.UPKEEP).sort("at", 1).limit(limit).to_list(limit)
        expired = 0
        if rows:
            # No counter changes with it: running is counted from its index.
            done = await jobs.update_many(
                {"_id": {"$in": [row["_id"] for row in rows]}, **lapsed},
                [{"$set": {"s": schema.QUEUED, "at": "$due"}}, {"$unset": "lock"}],
            )
            expired = done.modified_count
        await self._promote_due(now_ms, limit)
        await self.mend(now_ms, limit, gone_before_ms=now_ms - LAPSE_MS)
        return expired

    async def _promote_due(self, now_ms: int, limit: int) -> None:
        """Count deferred jobs that came due as waiting, so that readers need not look for them."""
        due: Document = {"d": True, "due": {"$lte": now_ms}, "s": schema.QUEUED}
        rows = await self.collections.jobs.find(due, {"type": 1}, hint=schema.DEFERRED).limit(limit).to_list(limit)
        effects = [Effect(row["type"], row["_id"], deferred=-1) for row in rows]
        await self.apply_alike(due, {"$unset": {"d": ""}}, effects, now_ms)

    async def mend(self, now_ms: int, limit: int, *, gone_before_ms: int) -> None:
        """Finish what crashed processes, or failed calls, had begun. A process that gave no sign since gone_before_ms
        counts as crashed."""
        await self.ledger.settle()
        await self.ledger.settle_lapsed(gone_before_ms=gone_before_ms, limit=limit)
        jobs = self.collections.jobs
        left = jobs.find({"todo": {"$exists": True}}, {"_id": 1}, hint=schema.TODO)
        for row in await left.limit(limit).to_list(limit):
            await self.follow(row["_id"], now_ms)
        old = {"s": schema.HIDDEN, "at": {"$lt": gone_before_ms}}
        for row in await jobs.find(old, NEEDED, hint=schema.UPKEEP).limit(limit).to_list(limit):
            await self.drop_hidden(row, now_ms)
        purged = jobs.find({"s": schema.PURGED}, {"blob": 1, "out.blob": 1}, hint=schema.UPKEEP)
        await self._remove(await purged.limit(limit).to_list(limit))
        await self.collections.types.update_many(
            {"open.at": {"$lt": gone_before_ms}}, {"$pull": {"open": {"at": {"$lt": gone_before_ms}}}}
        )

    @once
    async def expire_jobs(
        self,
        *,
        now_ms: int,
        done_before_ms: int,
        waiting_before_ms: int,
        tenant: str | None = None,
        limit: int = 1000,
    ) -> ExpireReport:
        check_time("now_ms", now_ms)
        check_range("limit", limit, 1, 10_000)
        where: Document = {} if tenant is None else {"type": schema.types_of(check_tenant(tenant))}
        archived = await self._oldest(where, schema.ARCHIVED_STATES, done_before_ms, limit)
        purged = await self.purge(archived, now_ms)
        waiting = await self._oldest(where, (schema.QUEUED,), waiting_before_ms, limit - len(archived))
        abandoned = await self._abandon(waiting, now_ms)
        return ExpireReport(purged, abandoned, more=len(archived) + len(waiting) >= limit)

    async def _oldest(self, where: Document, states: Sequence[str], before_ms: int, limit: int) -> list[Document]:
        """Of one state after the other, because only a single range of an index ends at the limit everywhere."""
        hint = None if where else schema.UPKEEP
        found: list[Document] = []
        for state in states:
            left = limit - len(found)
            if left <= 0:
                break
            old = where | {"s": state, "at": {"$lt": before_ms}}
            found += await self.collections.jobs.find(old, NEEDED, hint=hint).limit(left).to_list(left)
        return found

    async def purge(self, documents: Sequence[Document], now_ms: int) -> int:
        """Remove archived jobs as they were read. Those that have moved since are left."""
        effects = [
            Effect(
                document["type"],
                document["_id"],
                jobs=-1,
                size_bytes=-document["size"] - outcome_bytes(document),
            )
            for document in documents
        ]
        # First out of sight and counted, then removed: a crash between leaves what expire_locks removes.
        tokens = {document["token"] for document in documents}
        gone: set[str] = set()
        for token in tokens:
            alike = [e for e, d in zip(effects, documents, strict=True) if d["token"] == token]
            as_read = {"s": {"$in": list(schema.ARCHIVED_STATES)}, "token": token, "todo": None}
            gone |= await self.apply_alike(as_read, {"$set": {"s": schema.PURGED}}, alike, now_ms)
        await self._remove([document for document in documents if document["_id"] in gone])
        return len(gone)

    async def _remove(self, rows: Sequence[Document]) -> None:
        if rows:
            await self.blobs.remove(file_id for row in rows for file_id in kept_by(row))
            ids = [row["_id"] for row in rows]
            await self.collections.jobs.delete_many({"_id": {"$in": ids}, "s": schema.PURGED})

    async def _abandon(self, documents: Sequence[Document], now_ms: int) -> int:
        plain = [document for document in documents if not document["kin"]]
        steps = [archive_step(document, ABANDONED, None, now_ms=now_ms, ran=False) for document in plain]
        done = await self.apply(steps, now_ms)
        await self.blobs.remove(d.get("out", {}).get("blob") for d in plain if d["_id"] in done)
        abandoned = len(done)
        for document in documents:
            if document["kin"]:
                ended = await self.end_with_relatives(document, ABANDONED, None, owner=None, now_ms=now_ms)
                abandoned += ended is not None
        return abandoned
