"""Payloads and results beside the document: GridFS for what is too big to be read with every claim.

A blob is written before the document that refers to it and removed after the last document that did, so a
document never refers to nothing. What a crash leaves between the two is removed by `sweep`.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from io import BytesIO
from typing import Final

from bson import ObjectId
from gridfs.errors import CorruptGridFile, NoFile

from store.errors import StoreCorrupt
from store.mongo.server.driver import Bucket, Collection, Database, Document, bucket

INLINE_BYTES: Final = 256 * 1024
"""Up to this size bytes stay in the document. A batch of 500 claims then reads at most 128 MB."""

SWEEP_AFTER_MS: Final = 86_400_000
_FIRST: Final = ObjectId("0" * 24)


Kept = bytes | ObjectId
"""What a document keeps of some bytes: them, or the id of the blob that has them."""


class Blobs:
    def __init__(self, database: Database) -> None:
        self._bucket: Bucket = bucket(database)
        self._files: Collection = database["blobs.files"]
        self._swept = _FIRST

    async def put(self, job_id: str, content: bytes) -> Kept:
        if len(content) <= INLINE_BYTES:
            return content
        file_id = ObjectId()
        await self._bucket.upload_from_stream_with_id(file_id, job_id, content, metadata={"job": job_id})
        return file_id

    async def get(self, kept: Kept, start: int = 0, length: int | None = None) -> bytes:
        """All of it, or a part without reading the rest. Raises StoreCorrupt: it is not there, or not whole, as it is
        for who reads a document, and then what it refers to, while the job is changed."""
        if not isinstance(kept, ObjectId):
            return bytes(kept)[start : None if length is None else start + length]
        try:
            if length is not None:
                return await self._part(kept, start, length)
            content = BytesIO()
            await self._bucket.download_to_stream(kept, content)
        except (NoFile, CorruptGridFile) as error:
            raise StoreCorrupt(f"a job refers to the blob {kept}, which is not there") from error
        return content.getvalue()

    async def _part(self, file_id: ObjectId, start: int, length: int) -> bytes:
        stream = await self._bucket.open_download_stream(file_id)
        length = max(min(length, stream.length - start), 0)
        if not length:
            return b""
        stream.seek(start)
        return bytes(await stream.read(length))

    async def remove(self, kept: Iterable[Kept | None]) -> None:
        """Remove those that are blobs; removing one that is gone changes nothing."""
        for file_id in kept:
            if isinstance(file_id, ObjectId):
                try:
                    await self._bucket.delete(file_id)
                except NoFile:
                    continue

    async def sweep(self, jobs: Collection, *, now_ms: int, limit: int) -> None:
        """Remove blobs, a day old, that no document refers to: what a crash left behind.

        Looks at `limit` blobs and goes on from there the next time, so that repeated calls come to all.
        """
        before = ObjectId.from_datetime(datetime.fromtimestamp(max(now_ms - SWEEP_AFTER_MS, 0) / 1000, UTC))
        page = self._files.find({"_id": {"$gt": self._swept, "$lt": before}}, {"metadata": 1})
        found = await page.sort("_id", 1).limit(limit).to_list(limit)
        self._swept = found[-1]["_id"] if len(found) == limit else _FIRST
        owners = sorted({document["metadata"]["job"] for document in found})
        rows = await jobs.find({"_id": {"$in": owners}}, {"blob": 1, "out.blob": 1}).to_list(None)
        used = {kept for row in rows for kept in kept_by(row)}
        await self.remove(document["_id"] for document in found if document["_id"] not in used)


def kept_by(document: Document) -> list[ObjectId]:
    """The blobs that a job document refers to."""
    kept = (document.get("blob"), document.get("out", {}).get("blob"))
    return [file_id for file_id in kept if file_id is not None]
